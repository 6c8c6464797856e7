# SPDX-License-Identifier: Apache-2.0
"""The worker processes of one provider, each with one group at a time."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NoReturn, final

from posttrain.errors import RewardUnavailableError
from posttrain.execution.processes.evaluator import ProcessEvaluator
from posttrain.rewards.catalog.catalog import RewardCatalog
from posttrain.rewards.contract.request import RewardGroupRequest
from posttrain.rewards.scorers import BUILT_IN
from posttrain.rewards.stage.bind import BoundGroup
from posttrain.rewards.stage.boundary import GroupScores
from posttrain.rewards.stage.prepare import Selection

__all__ = ["ProviderPool"]


class _Elsewhere:
    """Stands in for a provider in this process."""

    def evaluate(self, request: RewardGroupRequest) -> NoReturn:
        """Never asked."""
        raise AssertionError(f"group {request.group_id!r} was to be evaluated in the service itself")


def _constructed_elsewhere(selection: Selection) -> Selection:
    """The same selection, whose factories are called in the workers alone.

    One that hangs, dies or loads a model must not do so in the service, which nobody could kill in part.
    """
    catalog = selection.catalog
    entries = {name: replace(spec, factory=_Elsewhere) for name, spec in catalog.items() if name not in BUILT_IN}
    return Selection(RewardCatalog(entries, path=catalog.path), selection.names)


@final
class ProviderPool:
    """The workers start with the first group, so that a catalog costs nothing for what nobody asks for.

    Args:
        selection: one provider.
        workers: how many groups may be in hand at once.
        group_timeout_s: seconds that a group may wait for a worker, and then be with it.
        start_timeout_s: seconds that a worker may take to start, the provider's factory included.
        memory_limit_mib: of one worker; None: not limited.

    Raises:
        RewardConfigError: the catalog has no path that a worker could resolve.
    """

    def __init__(
        self,
        selection: Selection,
        *,
        workers: int,
        group_timeout_s: float,
        start_timeout_s: float,
        memory_limit_mib: int | None,
    ) -> None:
        self._name = selection.names[0]
        self._timeout_s = group_timeout_s
        self._free = asyncio.Semaphore(workers)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="posttrain-group")
        self._evaluator = ProcessEvaluator(
            workers=workers,
            group_timeout_s=group_timeout_s,
            memory_limit_mib=memory_limit_mib,
            start_timeout_s=start_timeout_s,
        )
        self._evaluator.prepare(_constructed_elsewhere(selection), None)
        self._closed = False

    async def evaluate(self, group: BoundGroup) -> GroupScores:
        """Score one group.

        Raises:
            RewardError: as the stage would, also when no worker came free in time.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._free.acquire()
        except TimeoutError as error:
            text = f"no worker came free within {self._timeout_s:g} s: the service has too few of them"
            raise RewardUnavailableError(text, provider=self._name, group_id=group.group_id) from error
        try:
            if self._closed:
                raise RewardUnavailableError("the service is shutting down", group_id=group.group_id)
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._evaluate, group)
        finally:
            self._free.release()

    async def close(self) -> None:
        """Kill the workers; groups in hand fail."""
        self._closed = True
        try:
            await asyncio.to_thread(self._evaluator.close)
        finally:
            await asyncio.to_thread(self._threads.shutdown)

    def _evaluate(self, group: BoundGroup) -> GroupScores:
        (evaluation,) = self._evaluator.evaluate([group], collect_unavailable=False)
        if isinstance(evaluation, RewardUnavailableError):
            raise evaluation
        (scores,) = evaluation
        return scores
