# SPDX-License-Identifier: Apache-2.0
"""Rows put together to groups, one open group at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias, final

import msgspec
from msgspec import UNSET, Raw

from posttrain.errors import describe
from posttrain.jsonl.faults import Faults
from posttrain.jsonl.lines import RowFault
from posttrain.rollouts.columns import RolloutColumns, column_flag, missing_column
from posttrain.rollouts.grouping import Grouping
from posttrain.rollouts.position import Position
from posttrain.rollouts.rows import Candidate, RolloutRow, RowReader, names_of

__all__ = ["Assembler", "Draft", "Mark"]

MAX_CANDIDATES: Final = 1 << 16
"""Largest group that is read: a column that is the same in every row must not fill the memory."""

Mark: TypeAlias = str | bytes | int | None
"""What the rows of one group share: group id, canonical JSON of the key columns, or ordinal of the run."""


@final
@dataclass(slots=True, kw_only=True)
class Draft:
    """A group as it stands in the file, its rows decoded but for prompt and reference."""

    index: int
    """Ordinal of the group, from 0."""
    group_id: str
    mark: Mark
    """None: a row that holds a whole group without an id."""
    is_whole: bool
    """Whether one row holds the group."""
    rows: list[tuple[int, RolloutRow]] = field(default_factory=list)
    """Number and row, one for each candidate, or the one of a whole group; rows at fault are left out."""
    candidates: list[Candidate] = field(default_factory=list)
    first_row: int
    last_row: int
    offset: int
    """Decompressed offset behind the last row."""

    def trajectory_ids(self) -> list[str]:
        """The candidates' ids; minted from the group's id and the place in the group where a row has none."""
        return [
            f"{self.group_id}/{at}" if candidate[0] is None else candidate[0]
            for at, candidate in enumerate(self.candidates)
        ]

    def row_of(self, at: int) -> int:
        """Number of the row that holds the candidate in that place."""
        return self.rows[0 if self.is_whole else at][0]

    @property
    def end(self) -> Position:
        """The place behind the group."""
        return Position(offset=self.offset, row=self.last_row, groups=self.index + 1)


class _Unmarked(Exception):  # noqa: N818  # internal signal: the fault of a row that belongs to no group
    """The row can't be put into any group."""


@final
class Assembler:
    """Takes the rows in order and gives each group once its last row is known.

    Args:
        reader: reads the rows' candidates.
        columns: names of the columns, for errors.
        grouping: how rows become groups.
        faults: where the faults of rows are noted; once there is one, the groups that are given may lack rows.
        start: the place behind the groups that were read before.
    """

    def __init__(
        self, reader: RowReader, columns: RolloutColumns, grouping: Grouping, faults: Faults, start: Position
    ) -> None:
        self._reader = reader
        self._columns = columns
        self._grouping = grouping
        self._faults = faults
        self._index = start.groups
        self._open: Draft | None = None
        self._in_runs = 0
        self._runs_are_sure = True
        self._key: tuple[list[Raw], bytes] = ([], b"")
        # The rows of an earlier part of the file were found good, so a completion was among them.
        self._completion_known = start.groups > 0

    def take(self, number: int, row: RolloutRow | RowFault, offset: int, line: bytes) -> Draft | None:
        """Add the next row; the group that it closes, if it does.

        The arguments are the parts of a `RowLine`.
        """
        if type(row) is RowFault:
            # Most likely it was part of a run, so that the next runs begin where they would have.
            self._in_runs += 1
            self._runs_are_sure = False
            self._faults.add_row(number, row.text)
            return None
        is_whole = row.completions is not UNSET and row.completions is not None
        found = self._reader.candidates(row, line, completion_known=self._completion_known)
        self._completion_known = self._completion_known or is_whole or row.completion is not UNSET
        try:
            mark = self._mark(number, row, line, is_whole=is_whole)
        except _Unmarked as fault:
            self._faults.add_row(number, str(fault) if isinstance(found, list) else f"{fault}; {found}")
            return None
        draft, closed = self._open, None
        if draft is None or is_whole or draft.is_whole or mark != draft.mark:
            closed, draft = draft, self._begin(number, mark, is_whole=is_whole)
        draft.last_row, draft.offset = number, offset
        if isinstance(found, str):
            self._faults.add_row(number, found)
        elif len(draft.candidates) + len(found) > MAX_CANDIDATES:
            self._faults.add_row(number, self._too_many(draft))
        else:
            draft.candidates += found
            draft.rows.append((number, row))
        return closed

    def finish(self) -> Draft | None:
        """The group that the end of the file closes."""
        draft, self._open = self._open, None
        if draft is not None and (over := self._in_runs % (self._grouping.size or 1)):
            self._short_run(draft.last_row, over, "the file ends")
        return draft

    def _begin(self, number: int, mark: Mark, *, is_whole: bool) -> Draft:
        group_id = mark if isinstance(mark, str) else f"group-{self._index}"
        draft = Draft(
            index=self._index,
            group_id=group_id,
            mark=mark,
            is_whole=is_whole,
            first_row=number,
            last_row=number,
            offset=0,
        )
        self._index += 1
        self._open = draft
        return draft

    def _mark(self, number: int, row: RolloutRow, line: bytes, *, is_whole: bool) -> Mark:
        if self._grouping.columns:
            return self._key_of(row, line)
        if not self._grouping.size:
            return self._group_id(row, line, is_whole=is_whole)
        run, over = divmod(self._in_runs, self._grouping.size)
        if not is_whole:
            self._in_runs += 1
            return run
        if over:
            self._short_run(number, over, "this row holds a whole group")
            self._in_runs += self._grouping.size - over
        return None

    def _group_id(self, row: RolloutRow, line: bytes, *, is_whole: bool) -> str | None:
        group_id = row.group_id
        if type(group_id) is str and group_id:
            return group_id
        name, flag = self._columns.group_id, column_flag("group_id")
        if group_id is UNSET or group_id is None:
            if is_whole:
                return None
            fix = f"set {flag}, or --group-by COL,... or --group-by consecutive:N for rows without group ids"
            if group_id is None:
                raise _Unmarked(f"column {name!r}: expected a group id, got null; {fix}")
            raise _Unmarked(missing_column(name, names_of(line), fix))
        raise _Unmarked(
            f"column {name!r}: expected a string that is not empty, got {describe(group_id)}; write ids as strings, "
            f"or group by the column as it is with --group-by {name}"
        )

    def _key_of(self, row: RolloutRow, line: bytes) -> bytes:
        values = [getattr(row, attribute) for attribute in self._reader.key_fields]
        last, key = self._key
        if values == last:
            return key
        if UNSET in values:
            name = self._grouping.columns[values.index(UNSET)]
            raise _Unmarked(missing_column(name, names_of(line), "set --group-by"))
        try:
            # Equal bytes are strictly equal values: the type of a number shows, the order of keys does not.
            key = msgspec.json.encode([msgspec.json.decode(value) for value in values], order="deterministic")
        except msgspec.DecodeError as error:
            raise _Unmarked(f"a column of --group-by can't be read: {error}") from None
        self._key = (values, key)
        return key

    def _short_run(self, number: int, over: int, what: str) -> None:
        if self._runs_are_sure:
            size = self._grouping.size
            self._faults.add_row(number, f"{what}, and the last run has only {over} of its {size} rows")

    def _too_many(self, draft: Draft) -> str:
        return (
            f"the group that begins in row {draft.first_row} has more than {MAX_CANDIDATES:,} candidates; is it "
            "grouped by the right column?"
        )
