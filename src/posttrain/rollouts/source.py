# SPDX-License-Identifier: Apache-2.0
"""Saved rollouts, read as complete groups in flat memory."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import final

import msgspec

from posttrain.errors import RewardContractError
from posttrain.jsonl.faults import Faults
from posttrain.rollouts.assembly import Assembler, Draft
from posttrain.rollouts.columns import RolloutColumns
from posttrain.rollouts.grouping import BY_GROUP_ID, Grouping
from posttrain.rollouts.inputs import observations
from posttrain.rollouts.opened import Dump, JsonlRows, OpenRows
from posttrain.rollouts.position import START, Position
from posttrain.rollouts.rows import RowReader
from posttrain.rollouts.uniqueness import Suspect, UsedIds, first_uses
from posttrain.schema import Observation, Trajectory

__all__ = ["START", "Position", "RolloutGroup", "RolloutSource"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutGroup:
    """All candidates of one prompt, as the file has them."""

    group_id: str
    trajectories: list[Trajectory]
    """[group_size], in the order of the file."""
    first_row: int
    """Number of the group's first row, counted from 1 as an editor does."""
    last_row: int
    end: Position
    """The place behind the group, from which a later run may go on."""
    progress: int
    """Bytes of the file that were read so far, compressed ones where it is compressed."""
    index: int
    """Ordinal of the group in the file, counted from 0."""


@final
class RolloutSource:
    """A JSONL file of rollouts, plain or with the suffix ``.gz`` or ``.zst``.

    A row holds one candidate, or a whole group (a list of completions); a file may mix the two. Memory holds one
    group, and 12 to 24 bytes for each id of a group or a trajectory, which guard that none is used twice.

    Args:
        path: the file.
        columns: the names of its columns.
        grouping: how its rows become groups.
        needs: which of prompt and reference every row must have.
        dump: how the rows are read, where the file is not JSONL of ours; see `posttrain.rollouts.importers`.
        digest_bits: length of the guard's digests; fewer than 64 only serve to show what a collision does.

    Raises:
        RewardConfigError: the columns, the grouping and the needs don't fit together.
    """

    def __init__(
        self,
        path: str | Path,
        columns: RolloutColumns | None = None,
        grouping: Grouping = BY_GROUP_ID,
        *,
        needs: Sequence[str] = (),
        dump: Dump | None = None,
        digest_bits: int = 64,
    ) -> None:
        self.path = Path(path)
        self.columns = columns or RolloutColumns()
        self.grouping = grouping
        self.dump = dump
        self._digest_bits = digest_bits
        self._reader = RowReader(self.columns, grouping, needs)
        self._decode = msgspec.json.Decoder(self._reader.type).decode

    def groups(self, start: Position = START) -> Iterator[RolloutGroup]:
        """The file's groups from `start` on, each as soon as its last row is known.

        Ids that the file leaves out are minted from ordinals: ``group-3`` is the fourth group, ``group-3/0`` its first
        candidate. They are the same in each pass, wherever it starts; to start later than at the beginning, the ids
        before are read again.

        When a row is at fault, no further group comes, the rest of the file is only checked, and one error names the
        faults of all rows.

        Raises:
            RewardConfigError: the file can't be opened.
            RewardContractError: rows are at fault, or `start` is no place between two groups of this file.
        """
        used = UsedIds(bits=self._digest_bits)
        if start != START:
            self._relearn(used, start)
        faults = Faults()
        unsure: list[Suspect] = []
        with self._opened() as opened:
            for draft in self._drafts(opened, start, faults):
                observed = observations(draft, self.columns, self.grouping, faults)
                trajectory_ids = draft.trajectory_ids()
                if suspects := used.add(draft, trajectory_ids):
                    if not faults:
                        self._note_repeated(suspects, faults)
                    else:
                        kept = suspects[: max(0, faults.room - len(unsure))]
                        unsure += kept
                        faults.count(len(suspects) - len(kept))
                if not faults:
                    yield _group(draft, trajectory_ids, observed, opened.consumed)
        if unsure:
            self._note_repeated(unsure, faults)
        if faults:
            raise faults.error(self.path.name)

    def _opened(self) -> OpenRows:
        return JsonlRows(self.path) if self.dump is None else self.dump.open(self.path)

    def _drafts(self, opened: OpenRows, start: Position, faults: Faults) -> Generator[Draft, None, None]:
        assembler = Assembler(self._reader, self.columns, self.grouping, faults, start)
        rows = opened.rows(self._decode, start, self._reader.column_names)
        for number, row, offset, line in rows:
            if (draft := assembler.take(number, row, offset, line)) is not None:
                yield draft
        if (draft := assembler.finish()) is not None:
            yield draft

    def _relearn(self, used: UsedIds, start: Position) -> None:
        """Show `used` the ids before `start`."""
        faults = Faults()
        with self._opened() as opened, closing(self._drafts(opened, START, faults)) as drafts:
            for draft in drafts:
                used.add(draft, draft.trajectory_ids())
                if draft.end == start and not faults:
                    return
                if faults or draft.index + 1 >= start.groups:
                    break
        raise RewardContractError(
            f"{self.path}: group {start.groups - 1} does not end at row {start.row}, where the earlier run had come "
            "to: the file, its columns or its grouping have changed since; start over with --restart"
        )

    def _note_repeated(self, suspects: list[Suspect], faults: Faults) -> None:
        """Read the file again to see which of the suspects were really used before."""
        with self._opened() as opened, closing(self._drafts(opened, START, Faults())) as drafts:
            try:
                uses = first_uses(suspects, drafts)
            except LookupError as error:
                raise RewardContractError(f"{self.path} changed while it was read; read it again") from error
        for suspect, row in uses.items():
            if row is not None:
                faults.add_row(suspect.row, self._repeated(suspect, row))

    def _repeated(self, suspect: Suspect, row: int) -> str:
        where = "in this same row" if row == suspect.row else f"in row {row}"
        if not suspect.is_group:
            return f"trajectory id {suspect.name!r} stands {where} already; every candidate has an id of its own"
        name = repr(suspect.name) if isinstance(suspect.name, str) else f"of {_short(suspect.name)}"
        columns = self.grouping.columns or (self.columns.group_id,)
        other = "group by a column that tells them apart" if self.grouping.columns else "give each group its own id"
        return (
            f"group {name} began {where} and was complete; the rows of a group stand together: sort the file by "
            f"{', '.join(map(repr, columns))}, or {other}"
        )


def _group(draft: Draft, trajectory_ids: list[str], observed: list[Observation], consumed: int) -> RolloutGroup:
    group_id = draft.group_id
    trajectories = [
        Trajectory(
            trajectory_id=trajectory_id, group_id=group_id, obs=obs, completion=completion, policy_info=policy_info
        )
        for trajectory_id, obs, (_, completion, policy_info) in zip(
            trajectory_ids, observed, draft.candidates, strict=True
        )
    ]
    return RolloutGroup(
        group_id=group_id,
        trajectories=trajectories,
        first_row=draft.first_row,
        last_row=draft.last_row,
        end=draft.end,
        progress=consumed,
        index=draft.index,
    )


def _short(key: bytes) -> str:
    text = key.decode()
    return text if len(text) <= 60 else f"{text[:57]}..."
