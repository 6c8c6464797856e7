# SPDX-License-Identifier: Apache-2.0
"""What is behind the endpoints while the service runs: made when it starts, undone when it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import final

from posttrain.service.groups.scoring import GroupDesk
from posttrain.service.scorers.spec import ScorerSpec
from posttrain.service.settings import ServiceSettings
from posttrain.service.store.results import ResultStore
from posttrain.service.web.metrics import ServiceMetrics
from posttrain.service.work.lanes import Lanes
from posttrain.service.work.spool import Spool
from posttrain.service.work.worker import ScoringWorker

__all__ = ["Running"]

_log = logging.getLogger("posttrain.service")


@final
class Running:
    """The parts, and the order in which they start and end.

    Args:
        settings: how to serve.
        scorers: name to scorer.
        worker: makes the worker of a scorer.
        store: where results go.
        metrics: told what happens.
        groups: takes groups.
        broken: called when the service can't go on.
        masked: makes a text fit to be sent: without the secrets that this process knows.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        *,
        scorers: Mapping[str, ScorerSpec],
        worker: Callable[[ScorerSpec], ScoringWorker],
        store: ResultStore,
        metrics: ServiceMetrics,
        groups: GroupDesk,
        broken: Callable[[], None],
        masked: Callable[[str], str],
    ) -> None:
        self.scorers = scorers
        self.store = store
        self.metrics = metrics
        self.groups = groups
        self.draining = False
        self.lanes: Lanes
        self.spool: Spool
        self._settings = settings
        self._worker = worker
        self._broken = broken
        self._masked = masked

    async def start(self) -> None:
        """Connect the store, make the spool, and get the lanes going.

        The user's own scorers are loaded now, in their processes; built-in ones with their first task.

        Raises:
            RewardConfigError: the spool can't be made, or a scorer can't be loaded.
            StoreUnavailableError: the store does not answer.
            WorkerLostError: a scorer hangs or dies while it is loaded.
        """
        await self.store.open()
        self.spool = Spool(self._settings.spool_dir, limit=self._settings.max_spool_bytes)
        self.lanes = Lanes(
            self.scorers,
            lambda name: self._worker(self.scorers[name]),
            store=self.store,
            metrics=self.metrics,
            most=self._settings.max_queue,
            timeout_s=self._settings.scorer_timeout_s,
            broken=self._broken,
            masked=self._masked,
        )
        try:
            await self.lanes.prepare([spec.name for spec in self._settings.scorers])
        except BaseException:
            await self.stop()
            raise

    async def drain(self) -> None:
        """Take no more work, let what was accepted end and be pulled, within the bound."""
        self.draining = True
        self.groups.refuse()
        try:
            async with asyncio.timeout(self._settings.drain_s):
                await self.lanes.wait_until_idle()
                await self.groups.wait_until_idle()
                await self.store.wait_until_read(self._settings.drain_s)
        except TimeoutError:
            _log.warning("work that is not done, or not pulled, after %g s is given up", self._settings.drain_s)

    async def stop(self) -> None:
        """Kill every worker, remove the spool, save what is to be saved."""
        try:
            # Each to its end: nothing may be scored any more when the store is closed.
            ended = await asyncio.gather(self.lanes.stop(), self.groups.stop(), return_exceptions=True)
        finally:
            self.spool.close()
            await self.store.close()
        for failure in ended:
            if failure is not None:
                raise failure
