# SPDX-License-Identifier: Apache-2.0
"""The queue: bounded as a whole, first come first served for each scorer, and no scorer waits for another."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from time import monotonic
from typing import Any, Final, final

from posttrain.errors import text_of
from posttrain.service.protocol.answers import error_result, scored_result
from posttrain.service.protocol.request_line import RequestLine
from posttrain.service.scorers.call import ScoreCall, ScoreReply
from posttrain.service.store.results import ResultStore
from posttrain.service.web.metrics import ServiceMetrics
from posttrain.service.work.spool import SpooledFile
from posttrain.service.work.worker import ScoringWorker, WorkerLostError

__all__ = ["Job", "Lanes"]

STOPPED: Final = "the service was shut down before this was scored: enqueue it again"

_log = logging.getLogger("posttrain.service.work")


@final
class Job:
    """One accepted array and what is still to be done with it."""

    def __init__(self, uuid: str, request: RequestLine, shape: tuple[int, ...], file: SpooledFile) -> None:
        self.uuid = uuid
        self.request = request
        self.file = file
        self.open_rewards = len(request.rewards)
        self._shape = shape

    def input_info(self, reply: ScoreReply | None = None) -> dict[str, Any]:
        """What is echoed with each result, as the public server has it."""
        info: dict[str, Any] = {**self.request.input_info, "shape": list(self._shape), "dtype": "torch.uint8"}
        if reply is not None:
            info |= {"min": f"{reply.low:.3f}", "max": f"{reply.high:.3f}"}
        if self.request.video_infos is not None:
            info["video_infos"] = self.request.video_infos
        return info

    def call(self, reward: str) -> ScoreCall:
        """What a worker is asked."""
        return ScoreCall(
            path=str(self.file.path), reward=reward, prompts=self.request.prompts, video_fps=self.request.video_fps
        )


@final
class Lanes:
    """One lane a scorer: a queue, a worker process, and a thread that waits for it.

    Args:
        workers: makes the worker of a scorer; told its name.
        store: where results go.
        metrics: told what happens.
        most: tasks (an array and one scorer) that may be accepted and not scored yet, over all lanes.
        timeout_s: seconds that one batch may take.
        masked: makes an error's text fit to be sent: without the secrets that this process knows.
        broken: called when a lane ends by an error of ours; the service can't go on.
    """

    def __init__(
        self,
        names: Mapping[str, object],
        worker: Callable[[str], ScoringWorker],
        *,
        store: ResultStore,
        metrics: ServiceMetrics,
        most: int,
        timeout_s: float,
        broken: Callable[[], None],
        masked: Callable[[str], str],
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._most = most
        self._timeout_s = timeout_s
        self._masked = masked
        self._taken = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._stopping = False
        self._lanes = {name: _Lane(worker(name)) for name in names}
        self._loops = [asyncio.create_task(self._run(name, lane)) for name, lane in self._lanes.items()]
        self._broken = broken
        for each in self._loops:
            each.add_done_callback(self._ended)

    async def prepare(self, names: Iterable[str]) -> None:
        """Start the workers of these lanes now, side by side.

        Raises:
            RewardConfigError: a function can't be loaded.
            WorkerLostError: a process hangs or dies.
        """
        loop = asyncio.get_running_loop()
        lanes = [self._lanes[name] for name in names]
        await asyncio.gather(*(loop.run_in_executor(lane.thread, lane.worker.start) for lane in lanes))

    @property
    def is_stopping(self) -> bool:
        """Whether what is submitted now would not be scored."""
        return self._stopping

    @property
    def is_full(self) -> bool:
        """Whether not even one more task is taken."""
        return self._taken >= self._most

    def reserve(self, count: int) -> bool:
        """Take room for so many tasks, or none of it."""
        if self._taken + count > self._most:
            return False
        self._taken += count
        self._idle.clear()
        self._metrics.queued(self._taken)
        return True

    def release(self, count: int) -> None:
        """Give room back."""
        self._taken -= count
        self._metrics.queued(self._taken)
        if self._taken == 0:
            self._idle.set()

    def submit(self, job: Job) -> None:
        """Queue the job's tasks, for which room was reserved."""
        for reward in job.request.rewards:
            self._lanes[reward].waiting.put_nowait(job)

    async def wait_until_idle(self) -> None:
        """Return when nothing is accepted and not scored."""
        await self._idle.wait()

    async def stop(self) -> None:
        """Kill the workers; whatever is not scored ends as an error, which is stored."""
        self._stopping = True
        await asyncio.gather(*(asyncio.to_thread(lane.worker.close) for lane in self._lanes.values()))
        for lane in self._lanes.values():
            lane.waiting.put_nowait(None)
        # One that broke has told so, and keeps nobody else from being let go of.
        await asyncio.gather(*self._loops, return_exceptions=True)
        for lane in self._lanes.values():
            # Nothing is left in that thread but what it does now.
            await asyncio.get_running_loop().run_in_executor(lane.thread, lane.worker.release)
            lane.thread.shutdown()

    def _ended(self, loop: asyncio.Task[None]) -> None:
        if not loop.cancelled() and (error := loop.exception()) is not None:
            _log.error("a lane broke", exc_info=error)
            self._broken()

    async def _run(self, name: str, lane: _Lane) -> None:
        while (job := await lane.waiting.get()) is not None:
            started = monotonic()
            outcome, body = await self._scored(name, lane, job)
            self._metrics.scored(name, outcome, monotonic() - started)
            await self._store.finish(job.uuid, name, body)
            job.open_rewards -= 1
            if job.open_rewards == 0:
                job.file.remove()
            self.release(1)

    async def _scored(self, name: str, lane: _Lane, job: Job) -> tuple[str, bytes]:
        """The outcome, in a word, and the body of the result."""
        if self._stopping:
            return "stopped", error_result(name, STOPPED, job.input_info())
        loop = asyncio.get_running_loop()
        started = monotonic()
        try:
            reply: ScoreReply = await loop.run_in_executor(
                lane.thread, lambda: lane.worker.score(job.call(name), timeout_s=self._timeout_s)
            )
        except WorkerLostError as error:
            if self._stopping:
                return "stopped", error_result(name, STOPPED, job.input_info())
            self._metrics.worker_lost(name, error.cause)
            text = self._masked(text_of(error))
            _log.warning("scorer %s: %s", name, text)
            return "lost", error_result(name, text, job.input_info(), monotonic() - started)
        if reply.scores is not None and all(map(math.isfinite, chain.from_iterable(reply.scores.values()))):
            return "ok", scored_result(name, reply.scores, job.input_info(reply), reply.seconds, reply.opened_s)
        text = reply.error or "the scorer gave neither finite scores nor an error"
        return "error", error_result(name, self._masked(text), job.input_info(reply), reply.seconds)


@final
class _Lane:
    def __init__(self, worker: ScoringWorker) -> None:
        self.worker = worker
        self.waiting: asyncio.Queue[Job | None] = asyncio.Queue()
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="posttrain-scorer")
