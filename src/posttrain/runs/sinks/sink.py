# SPDX-License-Identifier: Apache-2.0
"""The seam of everything that takes metrics, and what counts as a metric there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol, runtime_checkable

from posttrain.errors import RewardContractError, describe, listing
from posttrain.rewards.metrics.real import as_real, why_not_real

__all__ = ["LAST_STEP", "MetricSink", "check_step", "checked_metrics"]

LAST_STEP: Final = 99_999_999
"""Largest step: the names of files hold eight digits."""

_RESERVED: Final = frozenset({"step", "time"})


@runtime_checkable
class MetricSink(Protocol):
    """Takes the metrics of one step after the other."""

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Record the metrics of a step; on return they are where the sink keeps them.

        Raises:
            RewardContractError: the step or a metric is not one, see `checked_metrics`; nothing is recorded.
        """
        ...

    def close(self) -> None:
        """Let go of files and connections. Closing twice is fine."""
        ...


def check_step(step: object) -> int:
    """`step`, once it is known to be one: an int from 0 to `LAST_STEP`.

    Raises:
        RewardContractError: it is anything else, a bool or a float included.
    """
    if type(step) is not int or not 0 <= step <= LAST_STEP:
        raise RewardContractError(f"step: expected an int from 0 to {LAST_STEP:,}, got {describe(step)}")
    return step


def checked_metrics(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The metrics as Python floats: ints, floats, numpy and 0-d scalars that are finite.

    Raises:
        RewardContractError: naming every key that is no plain text or is reserved (``step``, ``time``), and every
            value that is no real finite number. NaN, infinity, None and bool are none.
    """
    found: dict[str, float] = {}
    faults: list[str] = []
    for key, value in metrics.items():
        if (fault := _key_fault(key)) is not None:
            faults.append(fault)
        elif (real := as_real(value)) is None:
            faults.append(f"{key!r}: expected a finite number, {why_not_real(value)}")
        else:
            found[key] = real
    if faults:
        raise RewardContractError(
            f"these metrics can't be recorded:\n{listing(faults)}\nLeave out what has no value at this step."
        )
    return found


def _key_fault(key: object) -> str | None:
    if not isinstance(key, str) or not key.strip() or not key.isprintable():
        return f"{describe(key)}: expected a name of printable characters"
    if key in _RESERVED:
        return f"{key!r} is reserved: a line has it already"
    return None
