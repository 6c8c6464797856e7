# SPDX-License-Identifier: Apache-2.0
"""Evaluate a chunk of groups inside an actor, so that at any moment another thread can tell how far it is."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError, Executor, Future
from time import monotonic
from typing import TypeAlias, final

from posttrain.errors import RewardError, RewardUnavailableError
from posttrain.execution.ending import ended_by
from posttrain.execution.ray.messages import Running
from posttrain.execution.wire import Outcome
from posttrain.rewards.stage.bind import BoundGroup
from posttrain.rewards.stage.boundary import GroupScores, evaluate_group
from posttrain.rewards.stage.prepare import PreparedProvider

__all__ = ["Chunk"]

_Answer: TypeAlias = GroupScores | RewardError | CancelledError


@final
class Chunk:
    """One dispatched chunk: what is done, what is under way, what failed.

    The rules are those of `InProcessEvaluator`: a provider with one group in flight is called from the actor's one
    working thread, others from as many threads as they may; every provider is asked although one was unavailable; the
    failure that counts is the first in the order of the groups.

    Args:
        epoch: the dispatch.
        groups: the chunk.
        collect_unavailable: see `GroupEvaluator.evaluate`.
    """

    def __init__(self, epoch: int, groups: Sequence[BoundGroup], *, collect_unavailable: bool) -> None:
        self.epoch = epoch
        self.groups = groups
        self._collect = collect_unavailable
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._table: dict[tuple[int, int], _Answer] = {}
        self._running: dict[tuple[int, int], float] = {}
        self._names: tuple[str, ...] = ()

    def stop(self) -> None:
        """Begin no further group."""
        self._stop.set()

    def run(self, prepared: Sequence[PreparedProvider], executors: Sequence[Executor | None]) -> None:
        """Evaluate every group, or those up to the first failure that counts.

        Args:
            prepared: [selected providers].
            executors: [selected providers], None for one that runs in this thread.
        """
        self._names = tuple(each.name for each in prepared)
        if not any(executors):
            for position in range(len(self.groups)):
                for index, provider in enumerate(prepared):
                    self._one(index, position, provider)
            return
        waiting: list[Future[None]] = []
        for index, (provider, executor) in enumerate(zip(prepared, executors, strict=True)):
            if executor is not None:
                waiting += [
                    executor.submit(self._one, index, position, provider) for position in range(len(self.groups))
                ]
        for index, (provider, executor) in enumerate(zip(prepared, executors, strict=True)):
            if executor is None:
                for position in range(len(self.groups)):
                    self._one(index, position, provider)
        for future in waiting:
            future.result()

    def running(self) -> tuple[Running, ...]:
        """What is in a provider's hands right now."""
        with self._lock:
            begun = dict(self._running)
        return self._running_of(begun)

    def _running_of(self, begun: dict[tuple[int, int], float]) -> tuple[Running, ...]:
        now = monotonic()
        return tuple(Running(position, self._names[index], now - since) for (index, position), since in begun.items())

    def snapshot(self) -> tuple[list[Outcome], tuple[Running, ...], tuple[int, ...]]:
        """At one moment: what came of each group, what is running, and which groups are begun but have no outcome.

        A group has no outcome, None, while a provider was not asked or has not answered.
        """
        with self._lock:
            table, begun = dict(self._table), dict(self._running)
        width = len(self._names)
        rows = [[table.get((index, position)) for index in range(width)] for position in range(len(self.groups))]
        outcomes = list(map(self._of_group, rows))
        touched = {position for _, position in (*table, *begun)}
        unfinished = tuple(at for at, outcome in enumerate(outcomes) if outcome is None and at in touched)
        return outcomes, self._running_of(begun), unfinished

    def _of_group(self, row: list[_Answer | None]) -> Outcome:
        failures = [each for each in row if isinstance(each, BaseException)]
        counting = next(filter(self._counts, failures), None)
        if counting is not None:
            return counting
        if None in row:
            return None
        if failures:
            return failures[0]
        return tuple([each for each in row if isinstance(each, GroupScores)])

    def _counts(self, error: BaseException) -> bool:
        return not (self._collect and isinstance(error, RewardUnavailableError))

    def _one(self, index: int, position: int, prepared: PreparedProvider) -> None:
        if self._stop.is_set():
            return
        place, request = (index, position), self.groups[position].requests[index]
        with self._lock:
            self._running[place] = monotonic()
        try:
            outcome: _Answer = evaluate_group(prepared, request)
        except (RewardError, CancelledError) as error:
            outcome = error
        except (SystemExit, KeyboardInterrupt) as error:
            # In process these end the driver; here they would end an actor that others rely on.
            outcome = ended_by(prepared.name, request, error)
        if isinstance(outcome, BaseException) and self._counts(outcome):
            self._stop.set()
        with self._lock:
            self._running.pop(place, None)
            self._table[place] = outcome
