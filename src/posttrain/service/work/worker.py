# SPDX-License-Identifier: Apache-2.0
"""The seam between the queue and the process that scores."""

from __future__ import annotations

from typing import Protocol

from posttrain.service.scorers.call import ScoreCall, ScoreReply

__all__ = ["ScoringWorker", "WorkerLostError"]


class WorkerLostError(Exception):
    """The process did not answer: it hung, died, or used too much memory. It was killed, and the next one is new."""

    def __init__(self, message: str, *, cause: str) -> None:
        super().__init__(message)
        self.cause = cause
        """One word for the metrics: ``timeout``, ``memory``, ``died`` or ``start``."""


class ScoringWorker(Protocol):
    """Scores with one function in a process of its own. Calls block, one at a time."""

    def start(self) -> None:
        """Start the process and load the function, if it does not run yet.

        Raises:
            RewardConfigError: the function can't be loaded.
            WorkerLostError: the process hangs or dies.
        """
        ...

    def score(self, call: ScoreCall, *, timeout_s: float) -> ScoreReply:
        """Score a batch; the process is started when there is none.

        Raises:
            WorkerLostError: it did not answer in time, died, or can't be started.
        """
        ...

    def close(self) -> None:
        """Kill the process, from any thread; a call that waits fails with `WorkerLostError`."""
        ...

    def release(self) -> None:
        """After `close`, from the thread that scores: let go of what is left of the process."""
        ...
