# SPDX-License-Identifier: Apache-2.0
"""The state of one `evaluate` call: which groups wait, which are out and under which epoch, what came of each."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import CancelledError
from typing import final

from posttrain.errors import RewardContractError, RewardError, RewardUnavailableError
from posttrain.execution.ray.sizing import CHUNK_BYTES, weight_of
from posttrain.execution.wire import Outcome
from posttrain.rewards.stage.bind import BoundGroup
from posttrain.rewards.stage.evaluator import GroupEvaluation

__all__ = ["Batch"]


@final
class Batch:
    """Touched by the dispatcher's thread alone, but for `done`, which the caller waits for, and what it then reads.

    Args:
        groups: the call's.
        collect_unavailable: see `GroupEvaluator.evaluate`.
        redispatches: how often a group that was lost with its actor is given to another.
    """

    def __init__(self, groups: Sequence[BoundGroup], *, collect_unavailable: bool, redispatches: int) -> None:
        self.groups = groups
        self.collect = collect_unavailable
        self.done = threading.Event()
        self.outstanding: set[int] = set()
        """Epochs of the dispatches that count."""
        self._redispatches = redispatches
        self._results: list[GroupEvaluation | None] = [None] * len(groups)
        self._fresh = 0
        self._returned: deque[int] = deque()
        self._suspects: deque[int] = deque()
        self._losses: dict[int, int] = {}
        self._failure: tuple[int, BaseException] | None = None

    @property
    def waiting(self) -> int:
        """Groups that still have to be given out."""
        if self._failure is not None:
            self._drop_needless(self._failure[0])
        return len(self._groups_left()) + len(self._returned) + len(self._suspects)

    @property
    def fails_at(self) -> int:
        """Groups from this one on are no longer needed."""
        return len(self.groups) if self._failure is None else self._failure[0]

    def has_suspects(self) -> bool:
        """Whether a group waits that was lost with an actor, perhaps because of itself."""
        return bool(self._suspects)

    def take_suspect(self) -> tuple[list[int], int]:
        """One such group and its weight: it runs alone, so that no other is lost with it again."""
        index = self._suspects.popleft()
        return [index], weight_of(self.groups[index])

    def take(self, most: int) -> tuple[list[int], int]:
        """The next groups and their weight, at most so many and about `CHUNK_BYTES`; none: only suspects wait."""
        taken: list[int] = []
        weight = 0
        while len(taken) < most and weight < CHUNK_BYTES:
            if self._returned:
                index = self._returned.popleft()
            elif self._groups_left():
                index, self._fresh = self._fresh, self._fresh + 1
            else:
                break
            weight += weight_of(self.groups[index])
            taken.append(index)
        return taken, weight

    def give_back(self, indices: Sequence[int]) -> None:
        """These were given out, but no provider has seen them."""
        self._returned.extend(indices)

    def accept(self, indices: Sequence[int], outcomes: Sequence[Outcome]) -> None:
        """Take what came of these groups; those without an outcome wait again."""
        for index, outcome in zip(indices, outcomes, strict=True):
            if outcome is None:
                self._returned.append(index)
            elif isinstance(outcome, RewardUnavailableError):
                self.unavailable(index, outcome)
            elif isinstance(outcome, (RewardError, CancelledError)):
                self.fail(index, outcome)
            else:
                self._results[index] = outcome

    def unavailable(self, index: int, error: RewardUnavailableError) -> None:
        """The group can't be scored: dropped, or the failure of the batch."""
        if self.collect:
            self._results[index] = error
        else:
            self.fail(index, error)

    def lost(self, index: int, *, repeatable: bool, error: RewardUnavailableError) -> None:
        """An actor was lost with the group: it waits again, or `error` is what came of it."""
        losses = self._losses[index] = self._losses.get(index, 0) + 1
        if repeatable and losses <= self._redispatches:
            self._suspects.append(index)
            return
        if losses > 1:
            error.add_note(f"it was given out {losses} times, and each time its actor was lost")
        self.unavailable(index, error)

    def fail(self, index: int, error: BaseException) -> None:
        """The batch ends; of several failures the first in the order of the groups counts."""
        if self._failure is None or index < self._failure[0]:
            self._failure = (index, error)

    def end(self, error: BaseException) -> None:
        """The batch ends at once, whatever is out."""
        self._failure = (-1, error)
        self.outstanding.clear()
        self.done.set()

    def settle(self) -> bool:
        """Whether nothing waits and nothing is out: then the caller is woken."""
        if self.done.is_set() or self.outstanding or self.waiting:
            return self.done.is_set()
        self.done.set()
        return True

    def result(self) -> list[GroupEvaluation]:
        """What `evaluate` returns; raises the failure."""
        if self._failure is not None:
            raise self._failure[1]
        results = [each for each in self._results if each is not None]
        if len(results) != len(self.groups):
            raise RewardContractError(
                f"{len(self.groups) - len(results)} of {len(self.groups)} groups came back without an outcome: "
                "this is a fault of posttrain itself"
            )
        return results

    def _groups_left(self) -> range:
        return range(self._fresh, self.fails_at)

    def _drop_needless(self, limit: int) -> None:
        self._returned = deque(index for index in self._returned if index < limit)
        self._suspects = deque(index for index in self._suspects if index < limit)
