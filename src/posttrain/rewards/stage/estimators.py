# SPDX-License-Identifier: Apache-2.0
"""Group-relative advantages.

Each estimator subtracts a baseline of the group from each candidate's final reward and divides by a scale. A group
without spread, a group of one too, gets exactly 0.0 each. Float64 throughout; the result is never NaN.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias, final

import msgspec

from posttrain.errors import RewardConfigError, describe
from posttrain.rewards.metrics.moments import Moments

__all__ = ["EPSILON", "ESTIMATORS", "Estimator", "estimator_named"]

EPSILON: Final = 1e-4
"""Added to a standard deviation before dividing by it, as TRL does."""

_Formula: TypeAlias = Callable[[Sequence[float], float, float], list[float]]

_LARGE: Final = 2.0**500
"""Below this no sum or square of a group's rewards leaves the range of a float."""

_SHRINK: Final = 2.0**-600


@final
class Estimator(msgspec.Struct, frozen=True):
    """A named way from the final rewards of a group to its advantages."""

    name: str
    formula: _Formula
    """(finals of one group with spread, batch scale, epsilon) to advantages, all in one unit."""
    over_batch: bool = False
    """Whether it needs the spread of the whole batch, so that no group can be annotated before the last is scored."""

    in_reward_units: bool = False
    """Whether advantages grow with the rewards; otherwise they are relative to a spread."""

    def batch_scale(self, finals: Moments) -> float:
        """What the formula needs to know of the whole batch."""
        return finals.std if self.over_batch else 1.0

    def advantages(self, finals: Sequence[float], batch_scale: float = 1.0) -> tuple[float, ...]:
        """One advantage per candidate of one group, [group_size].

        Args:
            finals: the final rewards of one group, finite.
            batch_scale: what `batch_scale` gave for the batch.
        """
        low, high = min(finals), max(finals)
        if low == high:
            return (0.0,) * len(finals)
        # Which way it goes hangs on the values alone, so that the order of the candidates changes no bit.
        if low > -_LARGE and high < _LARGE:
            return tuple(self.formula(finals, batch_scale, EPSILON))
        return self._scaled(finals, batch_scale)

    def _scaled(self, finals: Sequence[float], batch_scale: float) -> tuple[float, ...]:
        """The same where a sum or a square could leave the range of a float: computed on shrunken rewards."""
        shrunken = [final * _SHRINK for final in finals]
        values = self.formula(shrunken, batch_scale * _SHRINK, EPSILON * _SHRINK)
        if self.in_reward_units:
            values = [value / _SHRINK for value in values]
        # Only the last step can still overflow: it ends at the largest float, not at infinity.
        return tuple([max(-sys.float_info.max, min(sys.float_info.max, value)) for value in values])


def _mean(finals: Sequence[float]) -> float:
    return math.fsum(finals) / len(finals)


def _group_mean(finals: Sequence[float], batch_scale: float, epsilon: float) -> list[float]:
    """r_i - mean(r), Dr. GRPO's (arXiv 2503.20783)."""
    del batch_scale, epsilon
    mean = _mean(finals)
    return [final - mean for final in finals]


def _group_norm(finals: Sequence[float], batch_scale: float, epsilon: float) -> list[float]:
    """(r_i - mean(r)) / (std(r) + epsilon), sample standard deviation: GRPO's (arXiv 2402.03300), in TRL's form."""
    deviations = _group_mean(finals, batch_scale, epsilon)
    scale = math.sqrt(math.fsum([each * each for each in deviations]) / (len(finals) - 1)) + epsilon
    return [each / scale for each in deviations]


def _leave_one_out(finals: Sequence[float], batch_scale: float, epsilon: float) -> list[float]:
    """r_i minus the mean of the others: RLOO's (arXiv 2402.14740)."""
    stretch = len(finals) / (len(finals) - 1)
    return [each * stretch for each in _group_mean(finals, batch_scale, epsilon)]


def _group_mean_batch_std(finals: Sequence[float], batch_scale: float, epsilon: float) -> list[float]:
    """(r_i - mean(r)) / (std over the batch + epsilon), population standard deviation: DiffusionNFT's (2509.16117)."""
    scale = batch_scale + epsilon
    return [each / scale for each in _group_mean(finals, batch_scale, epsilon)]


ESTIMATORS: Final[Mapping[str, Estimator]] = MappingProxyType(
    {
        each.name: each
        for each in (
            Estimator("group_norm", _group_norm),
            Estimator("group_mean", _group_mean, in_reward_units=True),
            Estimator("leave_one_out", _leave_one_out, in_reward_units=True),
            Estimator("group_mean_batch_std", _group_mean_batch_std, over_batch=True),
        )
    }
)
"""Every estimator by its name."""


def estimator_named(name: str) -> Estimator:
    """The estimator of that name.

    Raises:
        RewardConfigError: there is none.
    """
    if not isinstance(name, str) or name not in ESTIMATORS:
        raise RewardConfigError(f"estimator: expected one of {', '.join(ESTIMATORS)}, got {describe(name)}")
    return ESTIMATORS[name]
