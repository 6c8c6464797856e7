# SPDX-License-Identifier: Apache-2.0
"""The workers of an evaluator, shared between the threads that call it. Their number never changes."""

from __future__ import annotations

import threading
from time import monotonic
from typing import Final, final

from posttrain.errors import RewardError, RewardUnavailableError
from posttrain.execution.processes.limits import Limits
from posttrain.execution.processes.messages import Kind
from posttrain.execution.processes.printed import LOGGER
from posttrain.execution.processes.worker import Worker
from posttrain.execution.wire import WireError, decode_error

__all__ = ["Pool"]

_LOOK_SECONDS: Final = 0.5
_CLOSE_SECONDS: Final = 10.0


@final
class Pool:
    """A fixed set of workers.

    Who holds a worker is written on the worker alone. One whose thread has died, or was interrupted and asks again, is
    free, so no interrupt at whatever line can lose one.
    """

    def __init__(self, count: int, start: bytes, limits: Limits) -> None:
        self.workers = tuple(Worker(number, start, limits) for number in range(1, count + 1))
        self.restarts = 0
        """Workers that were replaced."""
        self.is_closing = False
        self._close_s = min(_CLOSE_SECONDS, limits.start_timeout_s)
        self._waiting = 0
        self._changed = threading.Condition()

    @property
    def is_wanted(self) -> bool:
        """Whether some thread waits for a worker."""
        return self._waiting > 0

    def take_one(self) -> Worker:
        """A worker for this thread; waits until one is free.

        Raises:
            RewardUnavailableError: the pool is being closed.
        """
        with self._changed:
            self._waiting += 1
            try:
                while True:
                    self._refuse_closing()
                    if free := self._free(1):
                        return free[0]
                    self._changed.wait(_LOOK_SECONDS)
            finally:
                self._waiting -= 1

    def take_more(self, most: int) -> list[Worker]:
        """What is free beyond that, without waiting; nothing where another thread waits."""
        with self._changed:
            return [] if self._waiting or self.is_closing else self._free(most)

    def _free(self, most: int) -> list[Worker]:
        me, found = threading.current_thread(), list[Worker]()
        for worker in self.workers:
            if len(found) < most and (worker.owner is None or not worker.owner.is_alive()):
                worker.owner = me
                found.append(worker)
        return found

    def reclaim(self) -> None:
        """Free what an interrupted call of this thread has left behind."""
        self.give_back([worker for worker in self.workers if worker.owner is threading.current_thread()])

    def give_back(self, workers: list[Worker]) -> None:
        """Free them for others."""
        with self._changed:
            for worker in workers:
                worker.owner = None
            self._changed.notify_all()

    def _refuse_closing(self) -> None:
        if self.is_closing:
            raise RewardUnavailableError("the evaluator was closed while groups were evaluated on it")

    def close(self) -> None:
        """End every worker: providers are closed first, and what does not end in time is killed.

        Raises:
            RewardError: a provider failed to close; all workers are ended all the same.
        """
        self.is_closing = True
        try:
            self._take_all()
            self._close_providers()
        finally:
            for worker in self.workers:
                worker.stop()
                worker.owner = None

    def _take_all(self) -> None:
        deadline = monotonic() + self._close_s
        with self._changed:
            while True:
                self._free(len(self.workers))
                others = [each for each in self.workers if each.owner is not threading.current_thread()]
                if not others or monotonic() >= deadline:
                    return
                for worker in others:
                    # The thread that waits for it sees it end, and lets go.
                    if (child := worker.child) is not None:
                        child.kill()
                self._changed.wait(_LOOK_SECONDS / 5)

    def _close_providers(self) -> None:
        idle = [worker for worker in self.workers if worker.is_ready and not worker.given and worker.child is not None]
        for worker in idle:
            if worker.child is not None:
                worker.child.send(Kind.CLOSE)
        deadline = monotonic() + self._close_s
        failures = [error for worker in idle if (error := _closed(worker, deadline, self._close_s)) is not None]
        if failures:
            raise failures[0]


def _closed(worker: Worker, deadline: float, seconds: float) -> RewardError | None:
    """Wait for a worker to close its providers; gives the error of one that failed to."""
    child = worker.child
    if child is None:
        return None
    child.await_end(max(0.0, deadline - monotonic()))
    try:
        for kind, payload in child.receive():
            if kind == Kind.CLOSED:
                return decode_error(payload) if payload else None
    except WireError as error:
        LOGGER.warning("%s: %s", worker.name, error)
    if child.has_ended:
        LOGGER.warning("%s ended before its providers were closed", worker.name)
    else:
        LOGGER.warning("%s did not close its providers within %g s and is killed", worker.name, seconds)
    return None
