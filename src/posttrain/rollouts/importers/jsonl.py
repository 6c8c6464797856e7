# SPDX-License-Identifier: Apache-2.0
"""Dumps that are JSONL: the fields that are read, and the rows of a group put together where they lie apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar, final

import msgspec
from msgspec import Raw

from posttrain.jsonl.lines import RowFault, RowLine, read_rows
from posttrain.jsonl.streams import RowStream
from posttrain.rollouts.importers.gathered import GatheredLines
from posttrain.rollouts.importers.lenient import fields_of
from posttrain.rollouts.importers.peer import Found, Reading, decoded
from posttrain.rollouts.position import Position

__all__ = ["JsonlDump"]

T = TypeVar("T")


@final
class JsonlDump:
    """An open dump of JSON lines.

    The rows of a plain file are gathered into groups wherever they stand. A compressed one is read in its own order.

    Args:
        path: the file.
        reading: what of its rows is read.
        convert: makes a row of the tool's fields; gets those that are read and all of them.

    Raises:
        RewardConfigError: there is no such file, or it can't be read.
    """

    def __init__(
        self,
        path: Path,
        reading: Reading,
        convert: Callable[[dict[str, Any], dict[str, Raw], Reading], dict[str, Any] | RowFault],
    ) -> None:
        self._reading = reading
        self._convert = convert
        is_plain = path.suffix.lower() not in {".gz", ".zst"}
        self._stream: GatheredLines | RowStream = (
            GatheredLines(path, reading.group_by) if is_plain and reading.group_by else RowStream(path)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stream.__exit__(*exc)

    @property
    def consumed(self) -> int:
        """Bytes of the file read so far."""
        return self._stream.consumed

    def rows(self, decode: Callable[[bytes], T], start: Position, distinct: Sequence[str]) -> Iterator[RowLine[T]]:
        """See `OpenRows`."""
        return decoded(self._found(start, distinct), decode)

    def _found(self, start: Position, distinct: Sequence[str]) -> Iterator[Found]:
        stream = self._stream
        if isinstance(stream, RowStream):
            for number, fields, end, _ in read_rows(
                stream, fields_of, offset=start.offset, row=start.row, distinct=distinct
            ):
                yield number, self._row(fields), end
            return
        for place, fields, _, _ in read_rows(
            stream, fields_of, offset=start.offset, row=start.offset, distinct=distinct
        ):
            yield stream.number(place), self._row(fields), place

    def _row(self, fields: dict[str, Raw] | RowFault) -> dict[str, Any] | RowFault:
        if isinstance(fields, RowFault):
            return fields
        if missing := self._reading.missing(fields):
            return RowFault(missing)
        row: dict[str, Any] = {name: fields[name] for name in self._reading.fields if name in fields}
        try:
            return self._convert(row, fields, self._reading)
        except (msgspec.DecodeError, RecursionError):
            # What is left unconverted is decoded once more, where the field at fault is looked for.
            return row
