# SPDX-License-Identifier: Apache-2.0
"""Validations that run beside the training: one after the other, in one thread, their failures kept until asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Final, TypeAlias, final

from posttrain.runs.offline import Progress
from posttrain.runs.validation.result import ValidationResult

__all__ = ["Background", "RunningValidation"]

_Work: TypeAlias = Callable[[Callable[[Progress], None]], ValidationResult]
"""Scores a validation and tells of its progress."""


@final
class RunningValidation:
    """A validation that was started. Made by `PendingValidation.start`."""

    def __init__(self, step: int, folder: Path, future: Future[ValidationResult]) -> None:
        self.step: Final = step
        self.folder: Final = folder
        self.was_asked: bool = False
        """Whether somebody was told how it ended."""
        self._future = future

    def __repr__(self) -> str:
        return f"RunningValidation(step={self.step}, {'ended' if self.has_ended else 'not ended'})"

    @property
    def has_ended(self) -> bool:
        """Whether there is a result, or a failure."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> ValidationResult:
        """Wait for its end.

        Args:
            timeout: seconds to wait; None: as long as it takes.

        Raises:
            TimeoutError: it has not ended by then, and goes on.
            CancelledError: it was stopped; it stands pending.
            RewardError: it failed; the same as `PendingValidation.complete` would raise.
        """
        wait([self._future], timeout)
        if not self._future.done():
            raise TimeoutError(f"the validation of step {self.step} has not ended after {timeout:g} s; it goes on")
        if self._future.cancelled():
            raise _stopped(self.step, self.folder)
        self.was_asked = True
        return self._future.result()

    def cancel(self) -> None:
        """Take it out of the queue if it has not begun; it stands pending."""
        self._future.cancel()

    def unseen_failure(self) -> BaseException | None:
        """Why it failed, if it did and nobody was told yet. It has ended."""
        if self.was_asked or self._future.cancelled():
            return None
        failure = self._future.exception()
        return None if isinstance(failure, CancelledError) else failure


def _stopped(step: int, folder: Path) -> CancelledError:
    return CancelledError(f"the validation of step {step} was stopped: it stands pending in {folder}")


@final
class Background:
    """The thread, made when it is first needed."""

    def __init__(self) -> None:
        self.turn: Final = threading.Lock()
        """Held by whoever scores: the providers are asked by one validation at a time."""
        self._pool: ThreadPoolExecutor | None = None
        self._started: list[RunningValidation] = []
        self._stopping = threading.Event()

    def start(
        self, step: int, folder: Path, work: _Work, watch: Callable[[Progress], None] | None
    ) -> RunningValidation:
        """Run `work` when those that were started before have ended."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="posttrain-validation")
            self._stopping = threading.Event()
        stopping = self._stopping

        def told(progress: Progress) -> None:
            if stopping.is_set():
                raise _stopped(step, folder)
            if watch is not None:
                watch(progress)

        def run() -> ValidationResult:
            try:
                return work(told)
            except BaseException as error:
                error.add_note(f"in the validation of step {step}, {folder}")
                raise

        running = RunningValidation(step, folder, self._pool.submit(run))
        self._started.append(running)
        return running

    def close(self, *, stop: bool) -> list[BaseException]:
        """Wait until everything that was started has ended.

        Args:
            stop: let the one that runs end after the groups that it is at, and the others not begin.

        Returns:
            The failures that nobody was told of yet.
        """
        pool, self._pool = self._pool, None
        if pool is None:
            return []
        if stop:
            self._stopping.set()
            for each in self._started:
                each.cancel()
        pool.shutdown()
        ended, self._started = self._started, []
        return [failure for each in ended if (failure := each.unseen_failure()) is not None]
