# SPDX-License-Identifier: Apache-2.0
"""When to ask again, and after how long."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final, final

from posttrain.judges.config import JudgeConfig

__all__ = ["RETRIED_STATUSES", "Backoff", "is_retried", "retry_after"]

RETRIED_STATUSES: Final = frozenset({408, 409, 429})
"""Besides 500 and above."""

_LARGEST_POWER: Final = 64


def is_retried(status: int) -> bool:
    """Whether a status says that the same request may work later."""
    return status in RETRIED_STATUSES or status >= 500


def retry_after(header: str | None, *, now: Callable[[], float] = time.time) -> float | None:
    """Seconds that a ``Retry-After`` asks to wait: a number or an HTTP date; None: nothing that can be read.

    Args:
        header: its value.
        now: seconds since the epoch.
    """
    if header is None:
        return None
    text = header.strip()
    try:
        seconds = float(text)
    except ValueError:
        try:
            date = parsedate_to_datetime(text)
            # HTTP's older form of a date names no zone: it is GMT as well.
            seconds = (date if date.tzinfo is not None else date.replace(tzinfo=UTC)).timestamp() - now()
        except (ValueError, OverflowError, OSError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


@final
class Backoff:
    """Waits that double from `JudgeConfig.backoff_base_s` to `JudgeConfig.backoff_cap_s`, half of each drawn by lot.

    Args:
        config: base and cap.
        draw: gives numbers in [0, 1).
    """

    def __init__(self, config: JudgeConfig, draw: Callable[[], float] = random.random) -> None:
        self._base = config.backoff_base_s
        self._cap = config.backoff_cap_s
        self._draw = draw

    def wait(self, retry: int, asked: float | None = None) -> float:
        """Seconds before the `retry`-th retry, from 1: never less than the endpoint asked for.

        What it asked for is stretched by up to `base`, so that those who were told the same don't return as one.
        """
        longest: float = min(self._cap, self._base * 2.0 ** min(retry - 1, _LARGEST_POWER))
        own = longest * (0.5 + 0.5 * self._draw())
        return own if asked is None else max(own, asked + self._base * self._draw())
