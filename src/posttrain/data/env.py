# SPDX-License-Identifier: Apache-2.0
"""Training rows as observations: canonical, checked, in a deterministic order that can be resumed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, final

from msgspec import UNSET, structs

from posttrain.data.columns import missing_column
from posttrain.data.order import Order
from posttrain.data.presence import INPUTS, input_fault, row_faults, row_id_of
from posttrain.data.row import RowSource, SourceRow
from posttrain.data.state import EnvState
from posttrain.data.trajectories import PromptBatch
from posttrain.errors import RewardConfigError, RewardContractError, describe, listing
from posttrain.jsonl.faults import Faults
from posttrain.schema import Observation

__all__ = ["Env"]

_STRETCH: Final = 1024


@final
class Env:
    """Draws the rows of a source as observations.

    It renames the mapped columns to the canonical `prompt` and `reference`, keeps each row's stable id in `row_id` and
    mints an id for each occurrence of a row: ``<name>-s<seed>-e<epoch>-<position>``. It checks that what is needed is
    there and never looks inside.

    Args:
        rows: where the rows come from.
        needs: what the provider declared in its spec: any of ``prompt`` and ``reference``.
        seed: fixes the order of every epoch, together with the epoch's number.
        shuffle: False: each epoch has the order of the source.
        name: begins every group id; two environments of one run have two names.

    Raises:
        RewardConfigError: `needs` names anything else, or no row at all has what is needed.
        RewardContractError: naming the rows that are known to lack it.
    """

    def __init__(
        self,
        rows: RowSource,
        *,
        needs: Iterable[str] = (),
        seed: int = 0,
        shuffle: bool = True,
        name: str = "train",
    ) -> None:
        self.rows = rows
        self.needs = tuple(needs)
        self.name = name
        if unknown := [need for need in self.needs if need not in INPUTS]:
            raise RewardConfigError(f"needs: {describe(unknown[0])} is no canonical input; those are prompt, reference")
        if type(seed) is not int:
            raise RewardConfigError(f"rl.data.seed: expected an int, got {describe(seed)}")
        self.start = EnvState(epoch=0, position=0, rows=len(rows), seed=seed, shuffle=shuffle)
        """The place before the first row."""
        self._refuse_gaps()

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.rows)

    def probe(self, count: int = 8) -> list[Observation]:
        """The first rows in the order of the source, checked against `needs`.

        Their group ids, ``<name>-probe-<index>``, are none that a batch has.

        Raises:
            RewardContractError: naming every row among them that can't be used, and why.
        """
        indices = range(min(count, len(self)))
        return self._observations([(index, f"{self.name}-probe-{index}") for index in indices])

    def check(self) -> None:
        """Check all rows against `needs`, as they will be when they are drawn.

        Raises:
            RewardContractError: naming every row that can't be used, and why.
        """
        faults = Faults()
        for start in range(0, len(self), _STRETCH):
            self._checked(range(start, min(start + _STRETCH, len(self))), faults)
        if faults.total:
            raise faults.error(self.rows.title)

    def batches(
        self, groups_per_batch: int, group_size: int, *, epochs: int | None = None, start: EnvState | None = None
    ) -> Iterator[PromptBatch]:
        """Draw the rows batch after batch; each epoch draws every row once.

        A batch that reaches the end of an epoch goes on into the next one, so that all have `groups_per_batch` groups,
        and a row may stand twice in one batch, as two groups.

        Args:
            groups_per_batch: observations in a batch, at least 1.
            group_size: completions that are wanted for each, at least 1.
            epochs: how many to draw in all, those before `start` included; the last batch may be smaller. None: no end.
            start: `end` of an earlier batch; None: the beginning.

        Raises:
            RewardConfigError: a number is not valid, or `start` is a place in other data than these.
            RewardContractError: while drawing, naming every row of a batch that can't be used; `start` goes on with
                that batch once they are mended.
        """
        counts = (("groups_per_batch", groups_per_batch), ("group_size", group_size), ("epochs", epochs))
        faults = [
            f"{what}: expected an int of at least 1, got {describe(count)}"
            for what, count in counts
            if not (type(count) is int and count >= 1) and not (what == "epochs" and count is None)
        ]
        if faults:
            raise RewardConfigError(f"batches can't be drawn:\n{listing(faults)}")
        if start is not None:
            self._refuse_other_data(start)
        return self._batches(groups_per_batch, group_size, epochs, start or self.start)

    def _batches(self, groups: int, size: int, epochs: int | None, state: EnvState) -> Iterator[PromptBatch]:
        while epochs is None or state.epoch < epochs:
            places, epoch, position = self._places(groups, epochs, state)
            prefix = f"{self.name}-s{state.seed}"
            observations = self._observations([(index, f"{prefix}-e{of}-{at}") for of, at, index in places])
            end = structs.replace(state, epoch=epoch, position=position, last_row_id=observations[-1].row_id)
            yield PromptBatch(observations=tuple(observations), group_size=size, start=state, end=end)
            state = end

    def _places(self, groups: int, epochs: int | None, state: EnvState) -> tuple[list[tuple[int, int, int]], int, int]:
        """Epoch, position and row of each of the next groups, and the epoch and position behind them."""
        epoch, position = state.epoch, state.position
        places: list[tuple[int, int, int]] = []
        while len(places) < groups and (epochs is None or epoch < epochs):
            order = self._order(epoch)
            stop = min(position + groups - len(places), len(self))
            places += [(epoch, at, order[at]) for at in range(position, stop)]
            epoch, position = (epoch + 1, 0) if stop == len(self) else (epoch, stop)
        return places, epoch, position

    def _order(self, epoch: int) -> Order | range:
        if not self.start.shuffle:
            return range(len(self))
        return Order(len(self), seed=self.start.seed, epoch=epoch)

    def _observations(self, draws: Sequence[tuple[int, str]]) -> list[Observation]:
        """The observation of each row, as the group of that id."""
        faults = Faults()
        rows = self._checked([index for index, _ in draws], faults)
        if faults.total:
            raise faults.error(self.rows.title)
        return [
            Observation(
                id=group_id,
                prompt=row.prompt,
                reference=None if row.reference is UNSET else row.reference,
                representations=row.representations,
                row_id=row_id,
            )
            for (_, group_id), (row, row_id) in zip(draws, rows, strict=True)
        ]

    def _checked(self, indices: Sequence[int], faults: Faults) -> list[tuple[SourceRow, str]]:
        """The rows at these places with their ids; those that can't be used are noted instead."""
        columns, present = self.rows.columns, self.rows.column_names
        checked = []
        for index, row in zip(indices, self.rows.take(indices), strict=True):
            found = row_faults(row, self.needs, columns, present)
            if not found:
                try:
                    checked.append((row, row_id_of(row, columns)))
                except RewardContractError as error:
                    found = [error.message]
            if found:
                faults.add(index, self.rows.place(index), "; ".join(found))
        return checked

    def _refuse_gaps(self) -> None:
        """Raise for every row of which the source knows already that it lacks what is needed."""
        if not len(self):
            raise RewardConfigError(f"{self.rows.title} has no rows")
        columns, faults = self.rows.columns, Faults()
        for role in INPUTS:
            gaps = self.rows.gaps.get(role)
            if gaps is None or not gaps.total or (role != "prompt" and role not in self.needs):
                continue
            lacking = self.rows.take(gaps.first)
            if gaps.total == len(self) and all(getattr(row, role) is UNSET for row in lacking):
                missing = missing_column(columns, role, self.rows.column_names)
                raise RewardConfigError(f"{self.rows.title}: a {role} is needed, but there is {missing}")
            for index, row in zip(gaps.first, lacking, strict=True):
                fault = input_fault(row, role, columns, self.rows.column_names, declared=role in self.needs)
                faults.add(index, self.rows.place(index), str(fault))
            faults.count(gaps.total - len(gaps.first))
        if faults.total:
            raise faults.error(self.rows.title)

    def _refuse_other_data(self, saved: EnvState) -> None:
        """Raise where a saved state is a place in other data."""
        faults = self.start.differences(saved)
        if not faults and saved.last_row_id is not None:
            epoch, position = (saved.epoch, saved.position) if saved.position else (saved.epoch - 1, len(self))
            index = self._order(epoch)[position - 1]
            found = self._observations([(index, "")])[0].row_id
            if found != saved.last_row_id:
                faults.append(
                    f"the row drawn last was {saved.last_row_id!r}, but {self.rows.place(index)} is now {found!r}"
                )
        if faults:
            raise RewardConfigError(
                f"{self.rows.title}: the saved state is a place in other data; resume with the same data and seed:\n"
                f"{listing(faults)}"
            )
