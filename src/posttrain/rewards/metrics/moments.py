# SPDX-License-Identifier: Apache-2.0
"""Count, mean, spread and range of many values, mergeable without any rounding."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import final

import msgspec

from posttrain.rewards.metrics.exact import Parts, as_fraction, exact_sum, quotient

__all__ = ["Moments"]


@final
class Moments(msgspec.Struct, frozen=True, gc=False):
    """The exact first two moments of finite floats, with their range."""

    count: int = 0
    total: Parts = ()
    """Exact sum of the values."""
    squares: tuple[str, int] = ("0", 0)
    """Exact sum of the squares as (n, k) for n / 2^k, n in hexadecimal: a square of a float need not fit a float."""
    low: float = 0.0
    """Smallest value; of no values 0.0, as `high` is."""
    high: float = 0.0
    """Largest value."""

    @classmethod
    def of(cls, values: Sequence[float]) -> Moments:
        """The moments of `values`, all finite."""
        if not values:
            return cls()
        # Rewards repeat a lot (0.0, 1.0), so each distinct value is squared once.
        squares = [(_square(value), times) for value, times in Counter(values).items()]
        scale = max(exponent for (_, exponent), _ in squares)
        mantissa = sum(times * (square << (scale - exponent)) for (square, exponent), times in squares)
        # Adding 0.0 turns -0.0 into 0.0, so that an extreme does not depend on which of the two came first.
        return cls(len(values), exact_sum(values), _packed(mantissa, scale), min(values) + 0.0, max(values) + 0.0)

    def merge(self, other: Moments) -> Moments:
        """Both together."""
        return merge_moments([self, other])

    @property
    def mean(self) -> float:
        """Arithmetic mean, correctly rounded; there is at least one value."""
        return quotient(self.total, (float(self.count),))

    @property
    def std(self) -> float:
        """Population standard deviation, correctly rounded but for the final square root."""
        mean = as_fraction(self.total) / self.count
        mantissa, exponent = self.squares
        variance = Fraction(int(mantissa, 16), (1 << exponent) * self.count) - mean * mean
        return _square_root(variance)


def merge_moments(moments: Iterable[Moments]) -> Moments:
    """All of them together; none at all gives empty moments."""
    filled = [each for each in moments if each.count]
    if not filled:
        return Moments()
    return Moments(
        sum(each.count for each in filled),
        exact_sum(part for each in filled for part in each.total),
        _sum_of_squares([each.squares for each in filled]),
        min(each.low for each in filled),
        max(each.high for each in filled),
    )


def _square(value: float) -> tuple[int, int]:
    """The exact square as (n, k) for n / 2^k."""
    numerator, denominator = value.as_integer_ratio()
    return numerator * numerator, 2 * (denominator.bit_length() - 1)


def _sum_of_squares(squares: list[tuple[str, int]]) -> tuple[str, int]:
    scale = max(exponent for _, exponent in squares)
    return _packed(sum(int(mantissa, 16) << (scale - exponent) for mantissa, exponent in squares), scale)


def _packed(mantissa: int, exponent: int) -> tuple[str, int]:
    # Without its trailing zero bits the pair is the only one for its value, whatever was merged in which order.
    if not mantissa:
        return "0", 0
    spare = min(exponent, (mantissa & -mantissa).bit_length() - 1)
    return f"{mantissa >> spare:x}", exponent - spare


def _square_root(variance: Fraction) -> float:
    # Halving the exponent first keeps variances beyond the range of a float in reach.
    if not variance:
        return 0.0
    shift = (variance.numerator.bit_length() - variance.denominator.bit_length()) // 2
    scaled = variance / Fraction(4) ** shift
    return math.ldexp(math.sqrt(scaled), shift)
