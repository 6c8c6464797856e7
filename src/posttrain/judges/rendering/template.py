# SPDX-License-Identifier: Apache-2.0
"""Templates of a judge's prompt: parsed once, filled by joining pieces, so that what is filled in is never read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, final

from posttrain.errors import RewardConfigError, describe, listing
from posttrain.judges.rendering.inert import guard_of

__all__ = ["Template"]

_PLACEHOLDER: Final = re.compile(r"\{\{([A-Za-z_][A-Za-z0-9_]*)\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SHORTEST_MARKER: Final = 3


@final
class Template:
    """Text with placeholders such as ``{response}``.

    A placeholder is a name in braces; every other brace is plain text, and ``{{response}}`` is the plain text
    ``{response}``. What is filled in is joined to the pieces around it and never looked at for placeholders.

    `markers` are its own lines without the space around them, each of which stands in a request exactly once. Not among
    them are lines shorter than three characters, and those that could be part of a JSON escape, such as a line of
    hexadecimal digits.

    Args:
        text: the template.
        required: placeholders that stand in it exactly once.
        optional: placeholders that may stand in it, at most once.

    Raises:
        RewardConfigError: naming every placeholder that is unknown, missing or repeated.
    """

    __slots__ = ("_pieces", "markers", "names", "text")

    def __init__(self, text: str, *, required: Iterable[str], optional: Iterable[str] = ()) -> None:
        if not isinstance(text, str):
            raise RewardConfigError(f"a judge's template is text, got {describe(text)}")
        must, may = tuple(required), tuple(optional)
        pieces: list[str] = [""]
        names: list[str] = []
        end = 0
        for match in _PLACEHOLDER.finditer(text):
            pieces[-1] += text[end : match.start()]
            end = match.end()
            if match[1] is not None:
                pieces[-1] += f"{{{match[1]}}}"
            else:
                names.append(match[2])
                pieces.append("")
        pieces[-1] += text[end:]
        if faults := _faults(names, must, may):
            raise RewardConfigError(f"a judge's template is not valid:\n{listing(faults)}")
        self.text = text
        self.names = tuple(names)
        self.markers = _markers(pieces)
        self._pieces = tuple(pieces)

    def __repr__(self) -> str:
        return f"Template({self.text!r})"

    def fill(self, texts: Mapping[str, str]) -> str:
        """The text with each placeholder's place taken by its text from `texts`, as it is."""
        parts = [self._pieces[0]]
        for name, piece in zip(self.names, self._pieces[1:], strict=True):
            parts += [texts[name], piece]
        return "".join(parts)


def _faults(names: list[str], must: tuple[str, ...], may: tuple[str, ...]) -> list[str]:
    known = ", ".join(f"{{{name}}}" for name in (*must, *may))
    faults = [
        f"{{{name}}} is no placeholder of it; those are {known}; write {{{{{name}}}}} for the text itself"
        for name in dict.fromkeys(names)
        if name not in (*must, *may)
    ]
    faults += [f"{{{name}}} is missing" for name in must if name not in names]
    faults += [
        f"{{{name}}} stands in it {names.count(name)} times" for name in dict.fromkeys(names) if names.count(name) > 1
    ]
    return faults


def _markers(pieces: list[str]) -> tuple[str, ...]:
    lines = (line.strip() for piece in pieces for line in piece.splitlines())
    fit = (line for line in lines if len(line) >= _SHORTEST_MARKER and guard_of(line) is not None)
    return tuple(dict.fromkeys(fit))
