# SPDX-License-Identifier: Apache-2.0
"""What a person reads of a prompt or a reference, and JSON text that a browser reads back exactly."""

from __future__ import annotations

import json
import re
from typing import Any, Final, TypeAlias

import msgspec

__all__ = ["Shown", "json_bytes", "shown", "snippet"]

Shown: TypeAlias = "list[str] | list[list[str]] | None"
"""``["text", text]``, ``["json", text]``, or a conversation: ``[["role", text], ...]``; None: not at hand."""

_SNIPPET: Final = 160
_HALF: Final = re.compile("[\ud800-\udfff]")
_MESSAGE: Final = frozenset({"role", "content"})


def shown(value: Any) -> Shown:
    """The value as a person reads it.

    Whatever is no text and no plain conversation is given as JSON text, made here: a browser would round its large
    integers.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return ["text", value]
    if _is_conversation(value):
        return [[message["role"], message["content"]] for message in value]
    return ["json", json.dumps(value, indent=2, ensure_ascii=False)]


def _is_conversation(value: Any) -> bool:
    return (
        isinstance(value, (list, tuple))
        and bool(value)
        and all(
            isinstance(each, dict) and each.keys() == _MESSAGE and all(isinstance(part, str) for part in each.values())
            for each in value
        )
    )


def snippet(value: Any) -> str:
    """The beginning of a prompt on one line; of a conversation its last message's."""
    found = shown(value)
    if found is None:
        return ""
    text = found[-1] if isinstance(found[-1], str) else found[-1][-1]
    # Four times as much as is shown is looked at, since blanks are folded.
    return " ".join(text[: 4 * _SNIPPET].split())[:_SNIPPET]


def json_bytes(value: Any) -> bytes:
    """Compact JSON; half a surrogate pair, which UTF-8 does not have, is written as its escape."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        return _HALF.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()
