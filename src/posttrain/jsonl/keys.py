# SPDX-License-Identifier: Apache-2.0
"""The keys of a line as they stand in it: decoders silently take the last of two that are equal."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, final

import msgspec
from msgspec import Raw

__all__ = ["UNREADABLE", "RepeatedKeys", "is_readable", "keys_of"]

UNREADABLE: Final = "a quote, a backslash, a control character or half of a surrogate pair"
"""What no key may hold that is looked for in rows: the decoder knows keys by their plain spelling only."""

_UNREADABLE: Final = re.compile('["\\\\\x00-\x1f\ud800-\udfff]')


class _Key(str):
    """A key that equals itself only, so that a dict keeps each of two that read the same."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


_every_key = msgspec.json.Decoder(dict[_Key, Raw], dec_hook=lambda _, key: _Key(key)).decode


@final
class RepeatedKeys:
    """Finds lines in which one of some keys stands more than once; keys of nested objects are not looked at.

    Args:
        names: the keys.
    """

    __slots__ = ("_names", "_quoted")

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._quoted = [msgspec.json.encode(name) for name in sorted(self._names)]

    def fault(self, line: bytes) -> str | None:
        """The fault of a line that could be decoded, in words; None: there is none. JSON leaves open which counts."""
        # A key may be spelled with escapes, and then the count of its plain spelling says nothing.
        if b"\\" in line and (b"\\u" in line or b"\\/" in line):
            return self._found(line)
        for name in self._quoted:
            if line.count(name) > 1:
                return self._found(line)
        return None

    def _found(self, line: bytes) -> str | None:
        try:
            counts = Counter(_keys(line))
        except (RecursionError, ValueError) as error:
            # Whoever decoded the line before had a little more of the stack to itself.
            return "is nested too deep to be read" if isinstance(error, RecursionError) else f"can't be read: {error}"
        twice = sorted(name for name in self._names if counts[name] > 1)
        if not twice:
            return None
        names = ", ".join(map(repr, twice))
        return f"has the key {names} more than once, so that it is open which counts; keep one"


def is_readable(name: str) -> bool:
    """Whether a key of that name can be looked for in rows; see `UNREADABLE`."""
    return _UNREADABLE.search(name) is None


def keys_of(line: bytes) -> list[str]:
    """The keys of a line that was checked, each once."""
    return list(dict.fromkeys(_keys(line)))


def _keys(line: bytes) -> Iterator[str]:
    """Every key, repeated ones each time."""
    try:
        return map(str.__str__, _every_key(line))
    except msgspec.DecodeError:
        # Half of a surrogate pair, written as an escape: some readers let it through.
        pairs = json.loads(line.decode(errors="replace"), object_pairs_hook=list, parse_int=str, parse_float=str)
        return (key for key, _ in pairs)
