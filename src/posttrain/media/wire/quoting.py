# SPDX-License-Identifier: Apache-2.0
"""A service's own words in our errors: short, on one line, and without the credentials that we sent it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final, final
from urllib.parse import quote, quote_plus, unquote_plus

__all__ = ["Quoter"]

_SHOWN: Final = 300
_MASK: Final = "[credential]"
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)


@final
class Quoter:
    """Quotes foreign text. A service may echo the token in any answer, so each quotation goes through here.

    Args:
        secrets: what must not come out, in any of the spellings that JSON and URLs have for it.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        spellings: set[str] = set()
        self._secrets = tuple(filter(None, secrets))
        for secret in self._secrets:
            escaped = json.dumps(secret)[1:-1]
            spellings |= {secret, escaped, escaped.replace("/", "\\/"), quote(secret, safe=""), quote_plus(secret)}
        # The longest first: one may hold another.
        self._spellings = sorted(spellings, key=len, reverse=True)

    def __repr__(self) -> str:
        return "Quoter()"

    def __call__(self, text: object) -> str:
        """`text` in quotation marks, masked, then cut to a few hundred characters."""
        if isinstance(text, (bytes, bytearray)):
            text = bytes(text).decode("utf-8", "backslashreplace")
        plain = text if isinstance(text, str) else _json(text)
        for spelling in self._spellings:
            plain = plain.replace(spelling, _MASK)
        if any(secret in reading for reading in _readings(plain) for secret in self._secrets):
            # In a rarer spelling, of which JSON and URLs allow many.
            plain = f"not shown, it holds the {_MASK}"
        plain = " ".join("".join(each if each.isprintable() else " " for each in plain).split())
        return f'"{plain[:_SHOWN]}..."' if len(plain) > _SHOWN else f'"{plain}"'


def _readings(text: str) -> Iterator[str]:
    """What a reader of a URL, and one of JSON, would take `text` for."""
    yield unquote_plus(text)
    yield _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else found[2], text)


def _json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return f"<{type(value).__name__}>"
