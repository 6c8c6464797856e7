# SPDX-License-Identifier: Apache-2.0
"""The line of every key of a TOML document, which the standard library's reader does not tell.

The reader decides what the document means; the walk here only says where. It follows headers, dotted keys, arrays of
tables, inline tables and the ends of strings, and takes for granted that the rest is valid.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, TypeAlias, final

__all__ = ["Place", "TomlLines"]

Place: TypeAlias = tuple[str | int, ...]
"""Keys and, inside arrays, indexes, from the root of the document."""

_SPACE: Final = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_BLANK: Final = re.compile(r"[ \t]*")
_KEY: Final = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
_TEXT: Final = re.compile(
    r"""
    \"\"\" (?: [^\\] | \\. )*? "{3,5} (?!")  # up to two quotes may stand right before the closing three
    | ''' .*? '{3,5} (?!')
    | " (?: [^"\\\n] | \\. )* "
    | ' [^'\n]* '
    """,
    re.DOTALL | re.VERBOSE,
)
_WORD: Final = re.compile(r"[^,\]}#\n]+")


class _Lost(Exception):  # noqa: N818  # internal signal: the document is not valid TOML
    """What stands here is no TOML."""


@final
class TomlLines:
    """Where each key, table and item of a document begins.

    Args:
        text: the document, with line feeds as line ends. Where it is not valid, the walk ends there.
    """

    def __init__(self, text: str) -> None:
        self.lines: dict[Place, int] = {}
        """Place to its line, counted from 1; a table that several keys make stands at the first of them."""
        self.repeated: list[tuple[Place, int, int]] = []
        """Every key or table that is given twice: its place, the line of the first time, and of the second."""
        self._text = text
        self._at = 0
        self._line_at = (0, 1)
        self._taken: dict[Place, int] = {}
        self._lengths: dict[Place, int] = {}
        with suppress(_Lost):
            self._document()

    def _document(self) -> None:
        table: Place = ()
        self._skip(_SPACE)
        while self._at < len(self._text):
            if self._peek() == "[":
                table = self._header()
            else:
                self._assignment(table)
            self._skip(_SPACE)

    def _header(self) -> Place:
        line = self._line()
        brackets = 2 if self._text.startswith("[[", self._at) else 1
        self._at += brackets
        keys = list(self._keys())
        self._take("]" * brackets)
        place: Place = ()
        for index, key in enumerate(keys):
            place = (*place, key)
            self.lines.setdefault(place, line)
            length = self._lengths.get(place, 0)
            if index == len(keys) - 1 and brackets == 2:
                self._lengths[place] = length + 1
                place = (*place, length)
                self.lines[place] = line
            elif length:
                place = (*place, length - 1)
        if brackets == 1:
            self._claim(place, line)
        return place

    def _assignment(self, table: Place) -> None:
        line = self._line()
        place = table
        for key in self._keys():
            place = (*place, key)
            self.lines.setdefault(place, line)
        self._claim(place, line)
        self._take("=")
        self._skip(_BLANK)
        self._value(place)

    def _claim(self, place: Place, line: int) -> None:
        if place in self._taken:
            self.repeated.append((place, self._taken[place], line))
        self._taken.setdefault(place, line)

    def _value(self, place: Place) -> None:
        match self._peek():
            case '"' | "'":
                self._match(_TEXT)
            case "[":
                self._items(place)
            case "{":
                self._inline_table(place)
            case _:
                self._match(_WORD)

    def _items(self, place: Place) -> None:
        self._at += 1
        index = 0
        self._skip(_SPACE)
        while self._peek() != "]":
            self.lines[(*place, index)] = self._line()
            self._value((*place, index))
            index += 1
            self._next_or("]")
        self._at += 1

    def _inline_table(self, place: Place) -> None:
        self._at += 1
        self._skip(_SPACE)
        while self._peek() != "}":
            self._assignment(place)
            self._next_or("}")
        self._at += 1

    def _next_or(self, end: str) -> None:
        """Go to the next item of an array or an inline table, or to its end."""
        self._skip(_SPACE)
        if self._peek() == ",":
            self._at += 1
            self._skip(_SPACE)
        elif self._peek() != end:
            raise _Lost

    def _keys(self) -> Iterator[str]:
        """The parts of a dotted key."""
        while True:
            self._skip(_BLANK)
            yield _unquoted(self._match(_KEY))
            self._skip(_BLANK)
            if self._peek() != ".":
                return
            self._at += 1

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, expected: str) -> None:
        if not self._text.startswith(expected, self._at):
            raise _Lost
        self._at += len(expected)

    def _skip(self, pattern: re.Pattern[str]) -> None:
        if (found := pattern.match(self._text, self._at)) is not None:
            self._at = found.end()

    def _match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise _Lost
        self._at = found.end()
        return found[0]

    def _line(self) -> int:
        """The line of the present place; the walk only goes forward, so only what is new is counted."""
        seen, line = self._line_at
        line += self._text.count("\n", seen, self._at)
        self._line_at = (self._at, line)
        return line


def _unquoted(key: str) -> str:
    if key[0] not in "\"'":
        return key
    try:
        return next(iter(tomllib.loads(f"{key} = 0")))
    except tomllib.TOMLDecodeError:
        raise _Lost from None
