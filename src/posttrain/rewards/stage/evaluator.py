# SPDX-License-Identifier: Apache-2.0
"""Where groups are evaluated. Only this part of the stage is ever distributed; here is the in-process one."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from itertools import chain
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias, final

from posttrain.errors import RewardConfigError, RewardError, RewardUnavailableError, describe
from posttrain.rewards.contract.lifecycle import opened
from posttrain.rewards.contract.provider import RewardProvider
from posttrain.rewards.contract.request import RewardGroupRequest
from posttrain.rewards.stage.bind import BoundGroup
from posttrain.rewards.stage.boundary import GroupScores, evaluate_group
from posttrain.rewards.stage.prepare import PreparedProvider, Selection, construct

__all__ = ["GroupEvaluation", "GroupEvaluator", "InProcessEvaluator"]

GroupEvaluation: TypeAlias = tuple[GroupScores, ...] | RewardUnavailableError
"""One `GroupScores` per selected provider, in their order; or why the group could not be scored."""


class GroupEvaluator(Protocol):
    """Evaluates bound groups somewhere. A worker owns one: it prepares it once, opens it, and closes it."""

    def prepare(self, selection: Selection, groups_in_flight: int | None) -> None:
        """Construct the selected providers; no network call, no model.

        Args:
            selection: what to run; a distributed evaluator resolves `selection.catalog.path` again where it runs.
            groups_in_flight: upper bound from the config; None: what each provider declares.

        Raises:
            RewardConfigError: a factory does not keep its contract, or the evaluator can't run this selection.
        """
        ...

    @property
    def groups_in_flight(self) -> int:
        """How many groups it takes to keep it busy: callers that feed it in stretches go by this."""
        ...

    def open(self) -> None:
        """Open managed providers, once per process that runs them. Opening twice is no error."""
        ...

    def evaluate(self, groups: Sequence[BoundGroup], *, collect_unavailable: bool) -> list[GroupEvaluation]:
        """One evaluation per group, in their order. A synchronous barrier: no call outlives it.

        With `collect_unavailable`, `RewardUnavailableError` is returned in its group's place and the others go on.
        Every other error, and that one without it, is raised, the first in the order of the groups that ran.
        """
        ...

    def close(self) -> None:
        """Close what `open` opened. Closing twice is no error."""
        ...


@final
class InProcessEvaluator:
    """Evaluates in this process.

    A provider with one group in flight runs in the caller's thread, group after group; one with more runs in that many
    threads. Results do not depend on which.
    """

    def __init__(self) -> None:
        self._prepared: tuple[PreparedProvider, ...] = ()
        self._limits: tuple[int, ...] = ()
        self._opened: ExitStack | None = None

    def prepare(self, selection: Selection, groups_in_flight: int | None) -> None:
        """See `GroupEvaluator.prepare`."""
        if groups_in_flight is not None and (type(groups_in_flight) is not int or groups_in_flight < 1):
            raise RewardConfigError(
                f"groups_in_flight: expected an int of at least 1, got {describe(groups_in_flight)}"
            )
        pairs = zip(selection.names, selection.specs, strict=True)
        self._prepared = tuple(construct(name, spec) for name, spec in pairs)
        declared = [each.spec.execution.groups_in_flight for each in self._prepared]
        self._limits = tuple(min(limit, groups_in_flight or limit) for limit in declared)

    @property
    def providers(self) -> Mapping[str, RewardProvider]:
        """Name to constructed provider; empty before `prepare`. A rank's entry attaches its decoder to one of them."""
        return MappingProxyType({each.name: each.provider for each in self._prepared})

    @property
    def groups_in_flight(self) -> int:
        """See `GroupEvaluator.groups_in_flight`: the largest of its providers' limits."""
        return max(self._limits)

    def open(self) -> None:
        """See `GroupEvaluator.open`. When one provider fails to open, those before it are closed again."""
        if self._opened is None:
            self._opened = opened({each.name: each.provider for each in self._prepared})

    def evaluate(self, groups: Sequence[BoundGroup], *, collect_unavailable: bool) -> list[GroupEvaluation]:
        """See `GroupEvaluator.evaluate`."""
        if self.groups_in_flight == 1:
            return [self._serial(group, collect_unavailable=collect_unavailable) for group in groups]
        return self._concurrent(groups, collect_unavailable=collect_unavailable)

    def close(self) -> None:
        """See `GroupEvaluator.close`. Every provider is closed, the last opened first, even when one fails to."""
        if self._opened is not None:
            providers, self._opened = self._opened, None
            # `ExitStack.close` would take an error that is on its way out of the context of a failure in here.
            providers.__exit__(*sys.exc_info())

    def _serial(self, group: BoundGroup, *, collect_unavailable: bool) -> GroupEvaluation:
        scores: list[GroupScores] = []
        unavailable: RewardUnavailableError | None = None
        for prepared, request in zip(self._prepared, group.requests, strict=True):
            try:
                scores.append(evaluate_group(prepared, request))
            except RewardUnavailableError as error:
                if not collect_unavailable:
                    raise
                # The providers after it are asked all the same, as they are in threads: a group that is dropped
                # hides no fault of theirs.
                unavailable = error if unavailable is None else unavailable
        return tuple(scores) if unavailable is None else unavailable

    def _concurrent(self, groups: Sequence[BoundGroup], *, collect_unavailable: bool) -> list[GroupEvaluation]:
        """Waiting providers start first, each in its own threads; the others run meanwhile in the caller's."""
        attempt = _Attempt(collect_unavailable=collect_unavailable)
        pools: list[ThreadPoolExecutor] = []
        futures: dict[int, list[Future[_Outcome]]] = {}
        table: list[list[_Outcome]] = [[] for _ in self._prepared]
        try:
            for index, (prepared, limit) in enumerate(zip(self._prepared, self._limits, strict=True)):
                if limit > 1:
                    pool = ThreadPoolExecutor(limit, thread_name_prefix=f"posttrain-{prepared.name}")
                    pools.append(pool)
                    futures[index] = [pool.submit(attempt, prepared, group.requests[index]) for group in groups]
            for index, prepared in enumerate(self._prepared):
                if index not in futures:
                    table[index] = [attempt(prepared, group.requests[index]) for group in groups]
            for index, waiting in futures.items():
                table[index] = [future.result() for future in waiting]
        except BaseException:
            # An interrupt does not wait for calls that are still under way; nothing new is started.
            attempt.stop.set()
            for pool in pools:
                pool.shutdown(wait=False, cancel_futures=True)
            raise
        for pool in pools:
            pool.shutdown()
        rows = list(zip(*table, strict=True))
        attempt.raise_first_failure(rows)
        return [_evaluation(row) for row in rows]


_Outcome: TypeAlias = GroupScores | RewardError | None
"""Of one group and one provider; None: skipped after another failed."""


@final
class _Attempt:
    """Evaluates one group for one provider; after the first failure that counts, everything later is skipped."""

    def __init__(self, *, collect_unavailable: bool) -> None:
        self.stop = threading.Event()
        self._collect_unavailable = collect_unavailable

    def __call__(self, prepared: PreparedProvider, request: RewardGroupRequest[Any]) -> _Outcome:
        if self.stop.is_set():
            return None
        try:
            return evaluate_group(prepared, request)
        except RewardError as error:
            if not self._is_collected(error):
                self.stop.set()
            return error
        except BaseException:
            # An interrupt in a pool's thread reaches the caller late; until then nothing new is started.
            self.stop.set()
            raise

    def raise_first_failure(self, rows: list[tuple[_Outcome, ...]]) -> None:
        """Raise the first failure that counts, in the order of the groups."""
        for outcome in chain.from_iterable(rows):
            if isinstance(outcome, RewardError) and not self._is_collected(outcome):
                raise outcome

    def _is_collected(self, error: RewardError) -> bool:
        return self._collect_unavailable and isinstance(error, RewardUnavailableError)


def _evaluation(row: tuple[_Outcome, ...]) -> GroupEvaluation:
    for outcome in row:
        if isinstance(outcome, RewardUnavailableError):
            return outcome
    return tuple([outcome for outcome in row if isinstance(outcome, GroupScores)])
