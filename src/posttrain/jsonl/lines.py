# SPDX-License-Identifier: Apache-2.0
"""The rows of a JSONL file, one at a time, each with its number and the place behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, TypeVar, final

import msgspec

from posttrain.jsonl.chunks import DamagedFile
from posttrain.jsonl.diagnosis import no_row, no_utf8
from posttrain.jsonl.keys import RepeatedKeys

__all__ = ["MAX_ROW_BYTES", "LineStream", "RowFault", "RowLine", "read_rows"]

T = TypeVar("T")

MAX_ROW_BYTES: Final = 1 << 28
"""Longest row that is read, 256 MiB: a file without line ends must not fill the memory."""

_BOM: Final = b"\xef\xbb\xbf"
_PARQUET: Final = "convert it to JSONL"


@final
@dataclass(frozen=True, slots=True)
class RowFault:
    """Stands in the place of a row that can't be used."""

    text: str
    """What was found and how to mend it."""


RowLine: TypeAlias = tuple[int, T | RowFault, int, bytes]
"""Number of the row, the row, the decompressed offset behind it, and its bytes."""


class LineStream(Protocol):
    """Where lines come from, in the order in which they are to be read: a `RowStream`, mostly."""

    @property
    def readline(self) -> Callable[[int], bytes]:
        """At most so many bytes, to the end of the line; empty at the end. May raise `DamagedFile`."""

    def skip_to(self, offset: int) -> None:
        """Go to a place at which a row begins."""


def read_rows(
    stream: LineStream,
    decode: Callable[[bytes], T],
    *,
    offset: int = 0,
    row: int = 0,
    distinct: Sequence[str] = (),
    longest: int = MAX_ROW_BYTES,
) -> Iterator[RowLine[T]]:
    """Decode a stream row by row, from the place behind row number `row`, which is at the decompressed `offset`.

    Rows are numbered from 1, as an editor numbers lines: blank ones count, but none is given for them. A row that is
    no JSON object comes as a `RowFault` and reading goes on behind it; where the file itself can't be read on, a
    `RowFault` is the last that comes. A byte order mark, CRLF ends and a last row without an end are fine.

    Args:
        stream: what to read; nothing has been read from it yet.
        decode: makes a row of one line of JSON, and raises what `msgspec` raises.
        offset: decompressed offset of the first byte to read, the end of an earlier row.
        row: number of that earlier row; 0 at the beginning.
        distinct: keys that may stand only once in a row. JSON leaves open which of two counts, and the decoder
            silently takes the last; a row that has one of these twice is a fault. Keys of nested objects are not
            looked at.
        longest: rows with more bytes are a fault.

    Raises:
        RewardContractError: no row begins at `offset`.
    """
    stream.skip_to(offset)
    return _rows(stream.readline, decode, offset, row, distinct, longest)


def _rows(
    readline: Callable[[int], bytes],
    decode: Callable[[bytes], T],
    offset: int,
    row: int,
    distinct: Sequence[str],
    longest: int,
) -> Iterator[RowLine[T]]:
    """See `read_rows`."""
    repeated = RepeatedKeys(distinct)
    while True:
        try:
            line = readline(longest)
            too_long = len(line) >= longest and not line.endswith(b"\n")
            rest = _skip_line(readline, longest) if too_long else 0
        except (DamagedFile, OSError) as error:
            yield row + 1, RowFault(f"can't be read: {error}"), offset, b""
            return
        if not line:
            return
        row += 1
        offset += len(line) + rest
        if too_long:
            yield row, RowFault(f"is longer than {longest:,} bytes; write one JSON object per line"), offset, b""
            continue
        if row == 1 and line.startswith(_BOM):
            line = line[len(_BOM) :]
        try:
            value = decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            if line.strip(b" \t\r\n"):
                fault = no_row(line, error, is_first=row == 1, parquet=_PARQUET)
                yield row, RowFault(fault), offset, line
            continue
        # The decoder does not look into the texts that it skips.
        wrong = (None if line.isascii() else no_utf8(line)) or (repeated.fault(line) if distinct else None)
        yield row, value if wrong is None else RowFault(wrong), offset, line


def _skip_line(readline: Callable[[int], bytes], longest: int) -> int:
    """Read the rest of a line; how many bytes that was."""
    skipped = 0
    while True:
        piece = readline(longest)
        skipped += len(piece)
        if not piece or piece.endswith(b"\n"):
            return skipped
