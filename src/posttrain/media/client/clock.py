# SPDX-License-Identifier: Apache-2.0
"""The time that a client goes by."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """What `posttrain.testing.ManualClock` stands in for."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary start."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass."""
        ...


class SystemClock:
    """The clock of this machine."""

    def monotonic(self) -> float:
        """See `time.monotonic`."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """See `time.sleep`; an interrupt ends it."""
        time.sleep(seconds)
