# SPDX-License-Identifier: Apache-2.0
"""The rows of a JSONL file, one at a time, each with its number and the place behind it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, TypeVar, final

import msgspec

from posttrain.rollouts.diagnosis import no_json
from posttrain.rollouts.streams import StreamFault

__all__ = ["MAX_ROW_BYTES", "LineStream", "RowFault", "RowLine", "read_rows"]

T = TypeVar("T")

MAX_ROW_BYTES: Final = 1 << 28
"""Longest row that is read, 256 MiB: a file without line ends must not fill the memory."""

_as_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_BOM = b"\xef\xbb\xbf"


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
        """At most so many bytes, to the end of the line; empty at the end. May raise `StreamFault`."""

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
    while True:
        try:
            line = readline(longest)
            too_long = len(line) >= longest and not line.endswith(b"\n")
            rest = _skip_line(readline, longest) if too_long else 0
        except (StreamFault, OSError) as error:
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
            if line.strip():
                yield row, RowFault(no_json(line, error, is_first=row == 1)), offset, line
            continue
        if distinct and not _is_plain(line) and (repeated := _repeated(line, distinct)):
            yield row, RowFault(repeated), offset, line
        else:
            yield row, value, offset, line


def _is_plain(line: bytes) -> bool:
    """Whether a row's length is the one that its different keys and their values make up: then no key repeats.

    Quick, and sure for rows of the two common layouts: no space at all, or one behind each colon and comma. Of any
    other row, keys with escapes or other than ASCII letters included, it says no.
    """
    try:
        fields = _as_fields(line)
    except (msgspec.DecodeError, RecursionError):
        return False
    keys = "".join(fields)
    count = len(fields)
    if not count or not keys.isascii():
        return False
    # Two quotes, a colon and a comma for each key, but for the last comma; two braces.
    least = len(keys) + len(b"".join(fields.values())) + 4 * count + 1
    spare = len(line.rstrip(b"\r\n")) - least
    # The space that would follow the first key's colon tells the layouts apart.
    first = len(next(iter(fields))) + 4
    return spare == (2 * count - 1 if line[first : first + 1] == b" " else 0)


def _repeated(line: bytes, keys: Sequence[str]) -> str | None:
    """The fault of a row in which one of `keys` stands twice. Slow and exact; numbers don't matter here."""
    text = line.decode(errors="replace")
    try:
        pairs = json.loads(text, object_pairs_hook=list, parse_int=str, parse_float=str, strict=False)
    except (ValueError, RecursionError) as error:
        # This decoder is a little stricter, and stands a little deeper in the stack.
        return f"can't be read: {error}"
    counts = Counter(key for key, _ in pairs)
    twice = [repr(key) for key in keys if counts[key] > 1]
    if not twice:
        return None
    return f"has the key {', '.join(twice)} more than once, so that it is open which counts; keep one"


def _skip_line(readline: Callable[[int], bytes], longest: int) -> int:
    """Read the rest of a line; how many bytes that was."""
    skipped = 0
    while True:
        piece = readline(longest)
        skipped += len(piece)
        if not piece or piece.endswith(b"\n"):
            return skipped
