# SPDX-License-Identifier: Apache-2.0
"""Texts that others wrote, shown so that they can't leave their place.

A text stands raw between two lines that carry a mark made from its own content::

    <<<response 5f0c2a9be1d34c77
    42
    5f0c2a9be1d34c77 response>>>

Nobody can write a text that holds its own mark, and it is verified that no text of the request holds any: else
another mark is made. The mark of a text depends on nothing but that text and the others' not holding it, so that the
requests of a group share their beginning (and with it a server's prefix cache) and repeat exactly.

A text that repeats a line of the template, or that UTF-8 can't carry, is shown as a JSON string between its lines, with
the repetition broken by a JSON escape. So each line of the template stands in the request exactly once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from posttrain.frozen import FrozenJson

__all__ = ["Shown", "blocks", "digest", "guard_of", "mark_of", "shown_text"]

Shown: TypeAlias = Literal["fenced", "json"]
"""``fenced``: raw between marked lines; ``json``: always a JSON string."""

_HEX: Final = 16
_TRIES: Final = 8
"""Marks of one length that are tried: a text may hold all the short ones."""
_ESCAPE_ALPHABET: Final = frozenset('\\"bfnrtu0123456789abcdef')


def digest(*parts: str) -> str:
    """SHA-256 in hexadecimal of some texts, any texts at all; other texts or other borders give another."""
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    return hashlib.sha256(b"".join([b"%d:%b" % (len(data), data) for data in encoded])).hexdigest()


def shown_text(value: FrozenJson) -> str:
    """A prompt or a reference as text: text as it is, every other JSON value as JSON with sorted keys."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def mark_of(*parts: str, absent: Iterable[str], length: int = _HEX) -> str:
    """A mark made from `parts`, of at least `length` hexadecimal digits, that none of the texts in `absent` holds."""
    everything, attempt = "\0".join(absent), 0
    while (mark := digest("mark", str(attempt), *parts)[: length + attempt // _TRIES]) in everything:
        attempt += 1
    return mark


def blocks(texts: Mapping[str, str], markers: Sequence[str], shown: Shown) -> dict[str, str]:
    """Each text in its block.

    Args:
        texts: name to text; the name stands on the marked lines.
        markers: lines of the template, as `Template.markers` gives them; none of them will stand in a block.
        shown: see `Shown`.
    """
    bodies = {name: _body(text, markers, shown) for name, text in texts.items()}
    everything = "\0".join(
        [*markers, *texts.values(), *(body for name, body in bodies.items() if body is not texts[name])]
    )
    marks = {name: mark_of(name, text, absent=(everything,)) for name, text in texts.items()}
    return {name: f"<<<{name} {marks[name]}\n{body}\n{marks[name]} {name}>>>" for name, body in bodies.items()}


def guard_of(line: str) -> str | None:
    """A character of the line that no JSON escape holds: with it escaped, the line can't stand in a JSON string."""
    usable = [char for char in line if char.isprintable() and char not in _ESCAPE_ALPHABET]
    return next((char for char in usable if not char.isalnum() and char != " "), usable[0] if usable else None)


def _body(text: str, markers: Sequence[str], shown: Shown) -> str:
    if shown == "fenced" and _is_encodable(text):
        for marker in markers:
            if marker in text:
                break
        else:
            return text
    quoted = "".join(_escape(char) if _is_surrogate(char) else char for char in json.dumps(text, ensure_ascii=False))
    # An escape can bring a marker about by what then stands side by side; each round takes a character out of use.
    while (found := next((marker for marker in markers if marker in quoted), None)) is not None:
        guard = guard_of(found) or found[0]
        quoted = quoted.replace(guard, _escape(guard))
    return quoted


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_surrogate(char: str) -> bool:
    return "\ud800" <= char <= "\udfff"


def _escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
