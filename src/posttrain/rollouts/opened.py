# SPDX-License-Identifier: Apache-2.0
"""A file of rollouts while it is read: rows of our JSONL, or of another tool's dump that is converted on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar, final

from posttrain.jsonl.lines import RowLine, read_rows
from posttrain.jsonl.streams import RowStream
from posttrain.rollouts.position import Position

__all__ = ["Dump", "JsonlRows", "OpenRows"]

T = TypeVar("T")


class OpenRows(Protocol):
    """An open file, from which one pass is read."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...

    @property
    def consumed(self) -> int:
        """About how many bytes of the file were read so far: at most its size."""

    def rows(self, decode: Callable[[bytes], T], start: Position, distinct: Sequence[str]) -> Iterator[RowLine[T]]:
        """The rows behind `start`, in the same order on each pass; see `read_rows`.

        The offsets that come with them may count anything, as long as a later pass can start from them.

        Args:
            decode: makes a row of one JSON object.
            start: the place behind a row.
            distinct: keys that may stand only once in a row.

        Raises:
            RewardContractError: no row begins there, or the file as a whole is at fault.
        """


class Dump(Protocol):
    """How another tool's file is read as rows."""

    def open(self, path: Path) -> OpenRows:
        """Open the file.

        Raises:
            RewardConfigError: it can't be opened, or what reads it is not installed.
        """

    def describe(self) -> Mapping[str, Any]:
        """What decides which rows the file gives, as JSON: recorded with the results, held against a resume."""


@final
class JsonlRows:
    """A JSONL file, plain or compressed.

    Raises:
        RewardConfigError: there is no such file, or it can't be opened.
    """

    __slots__ = ("_stream",)

    def __init__(self, path: Path) -> None:
        self._stream = RowStream(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stream.__exit__(*exc)

    @property
    def consumed(self) -> int:
        """Bytes of the file read so far."""
        return self._stream.consumed

    def rows(self, decode: Callable[[bytes], T], start: Position, distinct: Sequence[str]) -> Iterator[RowLine[T]]:
        """The rows behind `start`; offsets are those of the decompressed file."""
        return read_rows(self._stream, decode, offset=start.offset, row=start.row, distinct=distinct)
