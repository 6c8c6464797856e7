# SPDX-License-Identifier: Apache-2.0
"""The file is one piece, and nothing that came from data is anything but data in it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from html.parser import HTMLParser
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given

from posttrain.report.page import page
from strategies import text

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "]]>--><!--",
    "a\u2028b\u2029c\x00",
    "\ud800",
    "\u202eright to left",
    "</title><script>alert(1)</script>",
]


class _Elements(HTMLParser):
    """Every element with its attributes, and the text of each script and style."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self.texts.append("")
        self.inside = True

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.texts[-1] += data


def _read(title: str, data: dict[str, Any], blocks: list[bytes]) -> tuple[str, _Elements]:
    whole = b"".join(page(title, data, blocks)).decode("utf-8")
    elements = _Elements()
    elements.feed(whole)
    return whole, elements


def _scripts(elements: _Elements) -> dict[str | None, str]:
    return {
        attributes.get("id"): text
        for (tag, attributes), text in zip(elements.found, elements.texts, strict=True)
        if tag == "script"
    }


@pytest.mark.parametrize("nasty", HOSTILE)
def test_no_text_becomes_markup(nasty: str) -> None:
    """Whatever stands in title and data, the elements are those of an empty page, and the data comes back."""
    _, empty = _read("", {"x": ""}, [])
    whole, elements = _read(nasty, {"x": nasty, nasty: [nasty]}, [])
    assert [tag for tag, _ in elements.found] == [tag for tag, _ in empty.found]
    scripts = _scripts(elements)
    assert json.loads(zlib.decompress(base64.b64decode(scripts["index"]))) == {"x": nasty, nasty: [nasty], "at": []}
    assert "alert(1)<" not in whole.replace("&lt;", "")


@given(text)
def test_any_text_comes_back(value: str) -> None:
    """The data block has only the letters of base64, whatever was put in."""
    _, elements = _read(value, {"x": value}, [zlib.compress(b"{}")])
    for name, content in _scripts(elements).items():
        if name is not None:
            assert re.fullmatch(r"[A-Za-z0-9+/=]+", content)


def test_blocks_are_found_where_the_index_says() -> None:
    """Each block is a slice of a shard, also where there are several shards."""
    blocks = [zlib.compress(bytes([at]) * 10, 0) + b"\x00" * 300_000 for at in range(9)]
    _, elements = _read("t", {}, blocks)
    scripts = _scripts(elements)
    places = json.loads(zlib.decompress(base64.b64decode(scripts["index"])))["at"]
    assert len({shard for shard, _, _ in places}) > 1
    for block, (shard, offset, length) in zip(blocks, places, strict=True):
        assert base64.b64decode(scripts[f"shard-{shard}"][offset : offset + length]) == block


def test_the_policy_allows_the_pages_own_script_and_style_and_nothing_else() -> None:
    """The digests are those of the texts in the file, and no source of anything else is named."""
    whole, elements = _read("t", {}, [])
    policy = next(attributes["content"] for tag, attributes in elements.found if "http-equiv" in attributes)
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    for rule, tag in (("style-src", "style"), ("script-src", "script")):
        content = re.search(rf"<{tag}>(.*?)</{tag}>", whole, re.DOTALL)
        assert content is not None
        digest = base64.b64encode(hashlib.sha256(content[1].encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    assert set(rules) == {"default-src", "base-uri", "form-action", "style-src", "script-src"}


def test_nothing_is_loaded_from_anywhere() -> None:
    """No element has a source or a link, and the only address is the name of SVG."""
    whole, elements = _read("t", {}, [])
    assert not any({"src", "href", "action", "srcset"} & attributes.keys() for _, attributes in elements.found)
    assert set(re.findall(r"https?://[^\s\"']+", whole)) == {"http://www.w3.org/2000/svg"}
    assert "@import" not in whole
    assert "url(" not in whole


@pytest.mark.parametrize(
    "way",
    ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", 'setTimeout("', "srcdoc"],
)
def test_the_code_has_no_way_from_text_to_markup(way: str) -> None:
    """Elements are made by name, and texts become text nodes."""
    for asset in (files("posttrain.report") / "page").iterdir():
        assert way not in asset.read_text(encoding="utf-8"), asset.name


def test_every_asset_is_part_of_the_page() -> None:
    """No file of the folder is left out, and each says its licence."""
    whole, _ = _read("t", {}, [])
    for asset in (files("posttrain.report") / "page").iterdir():
        content = asset.read_text(encoding="utf-8")
        assert content in whole, asset.name
        assert "SPDX-License-Identifier: Apache-2.0" in content.splitlines()[0]
