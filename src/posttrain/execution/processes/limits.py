# SPDX-License-Identifier: Apache-2.0
"""The bounds that a worker is held to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from posttrain.errors import RewardConfigError, describe, listing
from posttrain.rewards.metrics.real import as_real

__all__ = ["Limits"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many workers, and what each may take."""

    workers: int
    """Processes, at least 1."""
    group_timeout_s: float
    """Wall-clock seconds for one group, above 0."""
    memory_limit_mib: int | None
    """Resident memory of a worker and what it started, at least 1; None: no bound."""
    start_timeout_s: float
    """Seconds from the start of a worker until its providers are open, above 0."""

    def __post_init__(self) -> None:
        """Refuse bounds of the wrong type or range, all at once."""
        faults = []
        if type(self.workers) is not int or self.workers < 1:
            faults.append(f"workers: expected an int of at least 1, got {describe(self.workers)}")
        if self.memory_limit_mib is not None and (type(self.memory_limit_mib) is not int or self.memory_limit_mib < 1):
            faults.append(
                f"memory_limit_mib: expected an int of at least 1 or None, got {describe(self.memory_limit_mib)}"
            )
        times: dict[str, object] = {"group_timeout_s": self.group_timeout_s, "start_timeout_s": self.start_timeout_s}
        for name, value in times.items():
            seconds = as_real(value)
            if seconds is None or seconds <= 0:
                faults.append(f"{name}: expected a number of seconds above 0, got {describe(value)}")
        if faults:
            raise RewardConfigError(f"ProcessEvaluator is not valid:\n{listing(faults)}")
