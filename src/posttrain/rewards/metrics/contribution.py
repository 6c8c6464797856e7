# SPDX-License-Identifier: Apache-2.0
"""One provider-local diagnostic, mergeable over groups, actors and ranks without any rounding."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Literal, Self, final

import msgspec

from posttrain.errors import RewardContractError, describe
from posttrain.rewards.metrics.exact import Parts, exact_sum, product, quotient, rounded
from posttrain.rewards.metrics.real import as_real

__all__ = ["MetricContribution", "MetricKind", "merge_all"]

_LIGHTEST, _HEAVIEST = 1e-18, 1e18

MetricKind = Literal["mean", "total", "minimum", "maximum"]


@final
class MetricContribution(msgspec.Struct, frozen=True, gc=False):
    """A reporting-only number that knows how to merge with others of its kind.

    Make one with `mean`, `total`, `minimum` or `maximum`. Merging is associative, commutative and exact: the same
    contributions give the same bits in any order and grouping; they are rounded only in `value`. None of them enters a
    reward or an advantage.
    """

    kind: MetricKind
    numerator: Parts
    """Exact sum of value × weight (mean) or of the values (total); the one extreme otherwise."""
    weight: Parts = ()
    """Exact sum of the weights; only a mean has one."""

    @classmethod
    def mean(cls, value: float, weight: float = 1) -> MetricContribution:
        """A weighted mean; `weight` is in [1e-18, 1e18], for example a count of tokens.

        Exact for every value of at least 1e-250 in size, and for every value with weight 1.
        """
        real, heft = _finite(value, "value"), _finite(weight, "weight")
        if not _LIGHTEST <= heft <= _HEAVIEST:
            raise RewardContractError(f"a mean's weight is in [{_LIGHTEST}, {_HEAVIEST}], got {describe(weight)}")
        try:
            return cls("mean", product(real, heft), (heft,))
        except OverflowError:
            raise RewardContractError(
                f"a mean's value × weight is beyond the range of a float: {describe(value)} × {describe(weight)}"
            ) from None

    @classmethod
    def total(cls, value: float) -> MetricContribution:
        """A sum, for example of tokens or calls."""
        real = _finite(value, "value")
        return cls("total", (real,) if real else ())

    @classmethod
    def minimum(cls, value: float) -> MetricContribution:
        """The smallest of the merged values; -0.0 counts as 0.0."""
        return cls("minimum", (_finite(value, "value") + 0.0,))

    @classmethod
    def maximum(cls, value: float) -> MetricContribution:
        """The largest of the merged values; -0.0 counts as 0.0."""
        return cls("maximum", (_finite(value, "value") + 0.0,))

    @property
    def is_sound(self) -> bool:
        """Whether the fields are what the constructors make; one made by hand may be anything."""
        if type(self.numerator) is not tuple or type(self.weight) is not tuple:
            return False
        if not all(type(part) is float and isfinite(part) for part in (*self.numerator, *self.weight)):
            return False
        if self.kind == "mean":
            # Of exact parts the first is the sum itself, rounded.
            return bool(self.weight) and self.weight[0] > 0 and exact_sum(self.weight) == self.weight
        if self.weight:
            return False
        return self.kind == "total" or (self.kind in ("minimum", "maximum") and len(self.numerator) == 1)

    def merge(self, other: Self) -> MetricContribution:
        """Both together.

        Raises:
            RewardContractError: the two are of different kinds.
        """
        return merge_all([self, other])

    @property
    def value(self) -> float:
        """The merged number, correctly rounded.

        Raises:
            RewardContractError: a total went beyond the range of a float.
        """
        if self.kind == "mean":
            return quotient(self.numerator, self.weight)
        try:
            return rounded(self.numerator)
        except OverflowError:
            raise RewardContractError("a total went beyond the range of a float") from None


def merge_all(contributions: Sequence[MetricContribution]) -> MetricContribution:
    """All of them together; there is at least one.

    Raises:
        RewardContractError: they are not all of one kind.
    """
    kinds = {contribution.kind for contribution in contributions}
    if len(kinds) > 1:
        raise RewardContractError(
            f"can't merge metrics of different kinds: {', '.join(sorted(kinds))}; one name has one kind in every group"
        )
    first = contributions[0]
    if len(contributions) == 1:
        return first
    values = [part for contribution in contributions for part in contribution.numerator]
    if first.kind == "minimum":
        return MetricContribution("minimum", (min(values),))
    if first.kind == "maximum":
        return MetricContribution("maximum", (max(values),))
    weight = exact_sum(part for contribution in contributions for part in contribution.weight)
    return MetricContribution(first.kind, exact_sum(values), weight)


def _finite(value: object, what: str) -> float:
    real = as_real(value)
    if real is None:
        raise RewardContractError(f"a metric's {what} is a finite number, got {describe(value)}")
    return real
