# SPDX-License-Identifier: Apache-2.0
"""The groups of two scorings, paired by id: in flat memory as long as both come in one order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, zip_longest
from typing import Final, final

from posttrain.errors import RewardConfigError, RewardContractError, listing
from posttrain.report.group import ScoredGroup
from posttrain.report.reading import Scores
from posttrain.runs.records import RecordedCandidate

__all__ = ["Pair", "Pairing"]

_LISTED: Final = 20


@final
class Pair:
    """One group on both sides, cut down to the candidates that both have, in the order of A."""

    __slots__ = ("a", "b")

    def __init__(self, a: ScoredGroup, b: ScoredGroup) -> None:
        self.a = a
        self.b = b

    @property
    def is_scored(self) -> bool:
        """Whether both sides have a reward."""
        return self.a.dropped_because is None and self.b.dropped_because is None


@final
class Pairing:
    """Reads two scorings side by side, once.

    Memory holds one group of each, and the groups that the other side has not shown yet: none where both files have one
    order, all of those that only one side has. Steps are told apart, unless a side was scored offline and has none.
    """

    def __init__(self, a: Scores, b: Scores) -> None:
        self._sides = (a, b)
        self.only: tuple[dict[str, str], dict[str, str]] = ({}, {})
        """For each side the candidates that it alone has: trajectory id to group id. Complete at the end."""
        self.not_scored = [0, 0]
        """For each side its dropped candidates."""
        self.other_texts = 0
        """Candidates whose completion is another text on the other side."""
        self.text_examples: list[str] = []
        self.texts_compared = 0

    def pairs(self) -> Iterator[Pair]:
        """Every group that both sides have.

        Raises:
            RewardConfigError: a file can't be read, or one side has many steps and the other none.
            RewardContractError: rows are at fault, or a candidate is in one group in A and in another in B.
        """
        streams = [side.groups() for side in self._sides]
        firsts = [next(stream, None) for stream in streams]
        # A run's first step may be called 0; a file of step 0 was scored offline.
        are_runs = all(side.is_run for side in self._sides)
        by_step = are_runs or all(first is None or first.step != 0 for first in firsts)
        left, right = (
            chain([first] if first is not None else [], stream) for first, stream in zip(firsts, streams, strict=True)
        )
        waiting: tuple[dict[str, ScoredGroup], dict[str, ScoredGroup]] = ({}, {})
        steps: tuple[set[int], set[int]] = (set(), set())
        for both in zip_longest(left, right):
            for side, group in enumerate(both):
                if group is None:
                    continue
                steps[side].add(group.step)
                if not by_step and len(steps[side]) > 1:
                    raise self._many_steps(side, steps[side])
                if group.dropped_because is not None:
                    self.not_scored[side] += len(group.candidates)
                key = f"{group.step if by_step else 0}/{group.group_id}"
                other = waiting[1 - side].pop(key, None)
                if other is None:
                    waiting[side][key] = group
                else:
                    yield self._paired(group, other) if side == 0 else self._paired(other, group)
        for side in (0, 1):
            for group in waiting[side].values():
                self.only[side].update((each.trajectory_id, group.group_id) for each in group.candidates)
        self._check_grouping()

    def _paired(self, a: ScoredGroup, b: ScoredGroup) -> Pair:
        others = {each.trajectory_id: each for each in b.candidates}
        mine, theirs = [], []
        for each in a.candidates:
            other = others.pop(each.trajectory_id, None)
            if other is None:
                self.only[0][each.trajectory_id] = a.group_id
                continue
            self._compare_texts(each, other)
            mine.append(each)
            theirs.append(other)
        self.only[1].update((each, b.group_id) for each in others)
        return Pair(_cut(a, mine), _cut(b, theirs))

    def _compare_texts(self, a: RecordedCandidate, b: RecordedCandidate) -> None:
        if a.completion is None or b.completion is None:
            return
        self.texts_compared += 1
        if a.completion != b.completion:
            self.other_texts += 1
            if len(self.text_examples) < _LISTED:
                self.text_examples.append(a.trajectory_id)

    def _check_grouping(self) -> None:
        a, b = self.only
        if moved := [f"{each!r}: {a[each]!r} in A, {b[each]!r} in B" for each in a if each in b]:
            raise RewardContractError(
                f"these candidates are in one group in A and in another in B:\n{listing(moved)}\n"
                "Only scores of the same groups can be compared."
            )

    def _many_steps(self, side: int, steps: set[int]) -> RewardConfigError:
        here, there = self._sides[side], self._sides[1 - side]
        return RewardConfigError(
            f"{here.path} holds several steps ({min(steps)}, {max(steps)} among them) and {there.path} was scored as a "
            "file without steps: name the file of one step, for example RUN/scored/step-00000010.jsonl"
        )


def _cut(group: ScoredGroup, candidates: list[RecordedCandidate]) -> ScoredGroup:
    return ScoredGroup(step=group.step, group_id=group.group_id, candidates=tuple(candidates))
