# SPDX-License-Identifier: Apache-2.0
"""The one pass over a JSONL file that finds where its rows begin, and everything that is wrong with them."""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, final

from msgspec import UNSET

from posttrain.data.columns import ColumnMapping
from posttrain.data.gaps import Gaps
from posttrain.data.row_ids import SeenIds, id_fault, id_text
from posttrain.data.strict import MappedRow, RowFault, StrictRows
from posttrain.jsonl.chunks import DamagedFile, split_lines
from posttrain.jsonl.faults import Faults
from posttrain.jsonl.keys import keys_of

__all__ = ["JsonlIndex"]

_BOM: Final = b"\xef\xbb\xbf"
_BLANK: Final = b" \t\r"


@final
class JsonlIndex:
    """Where the rows of a file begin.

    Args:
        columns: the file's columns.
        rows: how its lines are read.
        longest: rows of more bytes are a fault.
    """

    def __init__(self, columns: ColumnMapping, rows: StrictRows, longest: int) -> None:
        self.starts = array("Q")
        """[rows + 1] the place of each row's first byte, and the place behind the last row."""
        self.gaps = {"prompt": Gaps(), "reference": Gaps()}
        self.without_id = Gaps()
        """The rows without an id column, where there has to be one."""
        self.missing = {"prompt": 0, "reference": 0, "row_id": 0}
        """Canonical field to the number of rows that have no such column at all."""
        self.column_names: Sequence[str] = ()
        """Of the first row."""
        self.fingerprint = ""
        """SHA-256 of the lines, in hexadecimal."""
        self.ids = SeenIds()
        self.faults = Faults()
        self._columns = columns
        self._rows = rows
        self._longest = longest
        # Ordinal of the row before which each line stands that is none: it is blank or at fault.
        self._others = array("Q")

    def __len__(self) -> int:
        return max(0, len(self.starts) - 1)

    def number(self, index: int) -> int:
        """The number of a row, counted from 1 as an editor numbers lines, those that are no rows included."""
        return index + 1 + bisect_right(self._others, index)

    def scan(self, chunks: Iterable[bytes], write: Callable[[bytes], int] | None) -> None:
        """Look at every row, and note all faults.

        Args:
            chunks: the file, decompressed.
            write: takes the mapped columns of each row, where the rows will be read from a copy. None: they will be
                read from the file itself.
        """
        place = number = 0
        try:
            for line, size in split_lines(self._hashed(chunks), self._longest):
                number += 1
                row = self._row(line, number)
                if row is None:
                    self._others.append(len(self.starts))
                    place += 0 if write else size
                    continue
                bom = len(_BOM) if number == 1 and not write and line is not None and line.startswith(_BOM) else 0
                self.starts.append(place + bom)
                place += write(self._rows.text(row) + b"\n") if write else size
        except DamagedFile as error:
            self.faults.add(number + 1, f"row {number + 1}", f"can't be read: {error}")
        self.starts.append(place)

    def forget_ids(self) -> None:
        """Let the memory go that the look for repeated ids needed."""
        self.ids = SeenIds()

    def _hashed(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        digest = hashlib.sha256()
        try:
            for chunk in chunks:
                digest.update(chunk)
                yield chunk
        except OSError as error:
            raise DamagedFile(error.strerror or str(error)) from error
        self.fingerprint = digest.hexdigest()

    def _row(self, line: bytes | None, number: int) -> MappedRow | None:
        """The row of a line; None where it is blank or at fault."""
        if line is None:
            self.faults.add(
                number, f"row {number}", f"is longer than {self._longest:,} bytes; write one JSON object per line"
            )
            return None
        if number == 1:
            line = line.removeprefix(_BOM)
        if not line.strip(_BLANK):
            return None
        try:
            row = self._rows.check(line, is_first=number == 1)
        except RowFault as fault:
            self.faults.add(number, f"row {number}", str(fault))
            return None
        if not self.starts:
            self.column_names = keys_of(line)
        self._note(row, number)
        return row

    def _note(self, row: MappedRow, number: int) -> None:
        """Note what a row lacks, and its id."""
        index = len(self.starts)
        for role, value in (("prompt", row.prompt), ("reference", row.reference)):
            if value is None or value is UNSET:
                self.gaps[role].add(index)
                self.missing[role] += value is UNSET
        if self._columns.row_id_column is None:
            return
        if row.row_id is UNSET:
            self.without_id.add(index)
            self.missing["row_id"] += 1
        elif (row_id := id_text(row.row_id)) is None:
            self.faults.add(number, f"row {number}", id_fault(self._columns.row_id_column, row.row_id))
        else:
            self.ids.add(row_id)
