# SPDX-License-Identifier: Apache-2.0
"""Model names that may mean another model tomorrow."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["floating_alias"]

_MOVING: Final = frozenset({"latest", "current", "default", "auto", "stable", "preview", "main", "head", "newest"})
_HOSTED: Final = re.compile(r"(gpt-(?!oss)|chatgpt|o\d(-|$)|claude|gemini|grok|command-|mistral-(large|medium|small))")
_PINNED: Final = re.compile(
    r"(?<!\d)(20\d\d-?[01]\d-?[0-3]\d|2[0-9][01]\d|[01]\d-?[0-3]\d|00\d)(?!\d)"  # 20250514, 2411, 0613, 05-06, 002
    r"|@[0-9a-f]{7,}"
)


def floating_alias(model: str) -> str | None:
    """Why `model` is no lasting name, in words; None: nothing says that it is not.

    Two kinds are told: a part that says so itself (``latest``, ``preview``, ``default`` and the like), and a name of a
    hosted family (gpt, o-series, claude, gemini, grok, ...) without the date or number of a snapshot. Names of open
    weights pass: who serves them decides what they are.
    """
    name = model.rsplit("/", 1)[-1].lower()
    if moving := _MOVING.intersection(re.split(r"[-_:.@]", name)):
        if _PINNED.search(name) is None:
            return f"model {model!r} says {min(moving)!r}: it may be another model tomorrow; name a dated one"
        return None
    if _HOSTED.match(name) and _PINNED.search(name) is None:
        return f"model {model!r} names no snapshot: it may be another model tomorrow; name a dated one"
    return None
