# SPDX-License-Identifier: Apache-2.0
"""A clock that moves when it is told to, for tests of deadlines and backoff."""

from __future__ import annotations

import threading
from typing import final

__all__ = ["ManualClock"]


@final
class ManualClock:
    """Stands in for `time.monotonic` and `time.sleep`: sleeping advances it at once. Safe to share between threads."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = now
        self._lock = threading.Lock()
        self.slept: list[float] = []
        """Every duration that was slept, in order, in seconds."""

    def __repr__(self) -> str:
        return f"ManualClock(now={self._now!r})"

    def monotonic(self) -> float:
        """Seconds since an arbitrary start."""
        with self._lock:
            return self._now

    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass without waiting for them."""
        self._advance(seconds)
        self.slept.append(seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass that nobody slept through, for example inside a call."""
        self._advance(seconds)

    def _advance(self, seconds: float) -> None:
        if not seconds >= 0:
            raise ValueError(f"time only moves forward, got {seconds!r} seconds")
        with self._lock:
            self._now += seconds
