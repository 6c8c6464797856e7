# SPDX-License-Identifier: Apache-2.0
"""Which share of the advantage, and which of the reward, each term has.

Every estimator gives ``A_i = s (R_i - mean R)`` with one scale ``s`` for a group, and ``R_i`` is the sum of the
weighted terms ``w_t x_it``. So each advantage is, without a rest, the sum over the terms of their parts
``a_it = s w_t (x_it - mean x_t)``.
The share of a term in the advantage is

    sum_i a_it A_i / sum_i A_i A_i        over all scored candidates of all groups,

the covariance of the part with the whole over the variance of the whole (advantages have mean zero in each group): the
natural decomposition of a variance by its components (A. F. Shorrocks, "Inequality Decomposition by Factor Components",
Econometrica 50, 1982). The shares of all terms add up to 1. A term that is the same for all candidates of a group has
none there; a term that works against the reward has a negative one.

The share in the reward is the same rule with ``w_t x_it`` and ``R_i`` about their means over all scored candidates. It
counts differences between groups too, which no advantage sees.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias, final

__all__ = ["AdvantageShares", "Columns", "RewardShares", "advantage_parts", "deviations", "weights_explain"]

Columns: TypeAlias = Mapping[str, Sequence[float]]
"""Term to values, [group_size] each."""

_TOLERANCE = 1e-9


def weights_explain(terms: Columns, weights: Mapping[str, float], finals: Sequence[float]) -> bool:
    """Whether every final reward of a group is its weighted sum of terms, up to rounding."""
    if not terms.keys() <= weights.keys():
        return False
    for place, whole in enumerate(finals):
        products = [weights[term] * values[place] for term, values in terms.items()]
        size = max(1.0, abs(whole), *map(abs, products))
        # Shrunken first, so that no sum of large products overflows; an infinite product explains nothing.
        if not abs(sum(each / size for each in products) - whole / size) <= _TOLERANCE:
            return False
    return True


def deviations(values: Sequence[float]) -> list[float]:
    """Values minus their mean; exactly 0.0 each where all are the same.

    Raises:
        OverflowError: their sum is beyond the range of a float.
    """
    if min(values) == max(values):
        return [0.0] * len(values)
    mean = math.fsum(values) / len(values)
    return [value - mean for value in values]


def advantage_parts(
    terms: Columns, weights: Mapping[str, float], finals: Sequence[float], advantages: Sequence[float]
) -> dict[str, list[float]] | None:
    """Term to its part of each advantage, [group_size]: what the module calls ``a_it``.

    The scale is read off the group itself, so that it holds for every estimator. None: the rewards are too large to be
    taken apart in floats.
    """
    try:
        final_deviations = deviations(finals)
        unit = max(map(abs, final_deviations))
        if not unit:
            return {term: [0.0] * len(finals) for term in terms}
        shape = [each / unit for each in final_deviations]
        scale = math.fsum(map(_times, shape, advantages)) / math.fsum(map(_times, shape, shape))
        parts = {
            term: [scale * (weights[term] * each / unit) for each in deviations(values)]
            for term, values in terms.items()
        }
    except OverflowError:
        return None
    return parts if all(math.isfinite(each) for part in parts.values() for each in part) else None


def _times(left: float, right: float) -> float:
    return left * right


@final
class AdvantageShares:
    """Adds up the shares of the advantage over groups."""

    __slots__ = ("_parts", "_whole")

    def __init__(self) -> None:
        self._parts: dict[str, float] = {}
        self._whole = 0.0

    def add(self, parts: Columns, advantages: Sequence[float]) -> None:
        """Add a group: what `advantage_parts` gave, and its advantages."""
        self._whole += math.fsum(map(_times, advantages, advantages))
        for term, part in parts.items():
            self._parts[term] = self._parts.get(term, 0.0) + math.fsum(map(_times, part, advantages))

    def merge(self, other: AdvantageShares) -> None:
        """Add all that another one holds."""
        self._whole += other._whole
        for term, part in other._parts.items():
            self._parts[term] = self._parts.get(term, 0.0) + part

    @property
    def is_beyond_range(self) -> bool:
        """Whether advantages or their parts are too large for a float, so that no share is known."""
        return not math.isfinite(self._whole)

    def share(self, term: str) -> float | None:
        """The share of a term; None: there is no advantage to share, or it is beyond the range of a float."""
        return _ratio(self._parts.get(term, 0.0), self._whole)


@final
class RewardShares:
    """Adds up the shares of the reward over candidates: co-moments, merged group by group (Chan et al., 1979)."""

    __slots__ = ("_count", "_final_mean", "_means", "_moments", "_square")

    def __init__(self) -> None:
        self._count = 0
        self._final_mean = 0.0
        self._square = 0.0
        self._means: dict[str, float] = {}
        self._moments: dict[str, float] = {}

    def add(self, terms: Columns, weights: Mapping[str, float], finals: Sequence[float]) -> None:
        """Add a group; a term that it does not have counts as 0."""
        size = len(finals)
        total = self._count + size
        between = self._count * size / total
        try:
            mean, final_deviations = _centred(finals)
            step = mean - self._final_mean
            self._square += math.fsum(map(_times, final_deviations, final_deviations)) + step * step * between
            for term in {*self._moments, *terms}:
                values = [weights[term] * each for each in terms[term]] if term in terms else [0.0] * size
                term_mean, own = _centred(values)
                shift = term_mean - self._means.get(term, 0.0)
                moment = math.fsum(map(_times, own, final_deviations)) + shift * step * between
                self._moments[term] = self._moments.get(term, 0.0) + moment
                self._means[term] = self._means.get(term, 0.0) + shift * size / total
        except (OverflowError, ValueError):
            # From here on no share is known; a NaN says so to `share`.
            self._square = math.nan
            return
        self._final_mean += step * size / total
        self._count = total

    def share(self, term: str) -> float | None:
        """The share of a term; None: all rewards are the same, or beyond the range of a float."""
        return _ratio(self._moments.get(term, 0.0), self._square)


def _centred(values: Sequence[float]) -> tuple[float, list[float]]:
    own = deviations(values)
    return values[0] - own[0], own


def _ratio(part: float, whole: float) -> float | None:
    ratio = part / whole if whole > 0 else math.nan
    return ratio if math.isfinite(ratio) else None
