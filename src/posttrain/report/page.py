# SPDX-License-Identifier: Apache-2.0
"""One HTML file that holds everything that it shows, opens without a network, and runs no script but its own.

Whatever comes from people or models is compressed JSON in base64: it has no character that HTML could read as anything.
The page's code puts it into text nodes only. A content security policy names the digests of its one style and one
script and allows nothing else, so that even a mistake in the code could run or load nothing (docs/design/013).
"""

from __future__ import annotations

import base64
import hashlib
import html
import zlib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

from posttrain.report.shown import json_bytes

__all__ = ["page"]

_SCRIPTS: Final = (
    "decode.js",
    "dom.js",
    "format.js",
    "charts.js",
    "sections.js",
    "terms.js",
    "compare.js",
    "group.js",
    "table.js",
    "main.js",
)
_STYLES: Final = ("page.css", "charts.css", "table.css")
_SHARD: Final = 1 << 20
_TEMPLATE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main id="page"><p class="wait" id="wait">Opening the report…</p>
<noscript>This report draws itself: allow JavaScript for this file. It loads nothing from anywhere.</noscript></main>
"""


def page(title: str, data: dict[str, Any], blocks: Sequence[bytes]) -> Iterator[bytes]:
    """The pieces of the file, in order.

    Args:
        title: of the browser's tab.
        data: what the page shows; `blocks` gets a place in it, under ``at``.
        blocks: the compressed JSON of each group, opened one at a time.
    """
    style, script = _assets()
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src 'sha256-{_digest(style)}'; script-src 'sha256-{_digest(script)}'"
    )
    head = _TEMPLATE.format(policy=html.escape(policy), title=html.escape(title), style=style)
    yield head.encode("utf-8", "replace")
    places, shards = [], 0
    shard = bytearray()
    for block in blocks:
        text = base64.b64encode(block)
        if shard and len(shard) + len(text) > _SHARD:
            yield _data(f"shard-{shards}", bytes(shard))
            shards, shard = shards + 1, bytearray()
        places.append([shards, len(shard), len(text)])
        shard += text
    if shard:
        yield _data(f"shard-{shards}", bytes(shard))
    index = zlib.compress(json_bytes({**data, "at": places}), 9)
    yield _data("index", base64.b64encode(index))
    yield f"<script>{script}</script>\n</body>\n</html>\n".encode()


def _data(name: str, text: bytes) -> bytes:
    return b'<script type="text/plain" id="%s">%s</script>\n' % (name.encode(), text)


@cache
def _assets() -> tuple[str, str]:
    """The page's own style and script."""
    folder = files("posttrain.report") / "page"
    style = "".join((folder / name).read_text(encoding="utf-8") for name in _STYLES)
    script = "\n".join((folder / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    return f"\n{style}", f'\n"use strict";\n(() => {{\n{script}\n}})();\n'


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
