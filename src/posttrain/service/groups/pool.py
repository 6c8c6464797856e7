# SPDX-License-Identifier: Apache-2.0
"""The worker processes of one provider, each with one group at a time."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import final

from posttrain.errors import RewardConfigError, RewardUnavailableError
from posttrain.execution.processes.evaluator import ProcessEvaluator
from posttrain.rewards.stage.bind import BoundGroup
from posttrain.rewards.stage.boundary import GroupScores
from posttrain.rewards.stage.prepare import Selection

__all__ = ["ProviderPool"]


@final
class ProviderPool:
    """The workers start with the first group, so that a catalog costs nothing for what nobody asks for.

    Args:
        selection: one provider.
        workers: how many groups may be in hand at once.
        group_timeout_s: seconds that a group may wait for a worker, and then be with it.
        start_timeout_s: seconds that the factory, and then a worker, may take to start.
        memory_limit_mib: of one worker; None: not limited.
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
        self._selection = selection
        self._timeout_s = group_timeout_s
        self._start_timeout_s = start_timeout_s
        self._free = asyncio.Semaphore(workers)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="posttrain-group")
        self._evaluator = ProcessEvaluator(
            workers=workers,
            group_timeout_s=group_timeout_s,
            memory_limit_mib=memory_limit_mib,
            start_timeout_s=start_timeout_s,
        )
        self._preparing = asyncio.Lock()
        self._is_prepared = False
        self._closed = False

    async def evaluate(self, group: BoundGroup) -> GroupScores:
        """Score one group.

        Raises:
            RewardError: as the stage would, also when no worker came free in time.
        """
        await self._prepare()
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
        await asyncio.to_thread(self._evaluator.close)
        await asyncio.to_thread(self._threads.shutdown)

    async def _prepare(self) -> None:
        """Construct the provider here, as a check; a failure is told to this group, and the next one tries again."""
        async with self._preparing:
            if self._is_prepared:
                return
            try:
                async with asyncio.timeout(self._start_timeout_s):
                    await asyncio.to_thread(self._evaluator.prepare, self._selection, None)
            except TimeoutError as error:
                text = f"its factory did not return within {self._start_timeout_s:g} s"
                raise RewardConfigError(text, provider=self._name) from error
            self._is_prepared = True

    def _evaluate(self, group: BoundGroup) -> GroupScores:
        (evaluation,) = self._evaluator.evaluate([group], collect_unavailable=False)
        if isinstance(evaluation, RewardUnavailableError):
            raise evaluation
        (scores,) = evaluation
        return scores
