# SPDX-License-Identifier: Apache-2.0
"""Sums of floats that carry no rounding error until somebody reads them.

A sum is a tuple of floats whose exact total is the exact total of what went in: the first is that total rounded, the
second is what the first left over, and so on until nothing is left. The tuple depends on the exact total alone, so any
order and any grouping of the same values gives the same bits. `math.fsum` (Shewchuk, "Adaptive Precision Floating-Point
Arithmetic", 1997) does the work; where it overflows on the way, rational arithmetic takes over.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from fractions import Fraction
from typing import TypeAlias

__all__ = ["Parts", "as_fraction", "exact_sum", "product", "quotient", "rounded"]

Parts: TypeAlias = tuple[float, ...]

_LARGEST = sys.float_info.max


def exact_sum(values: Iterable[float]) -> Parts:
    """The exact sum of finite floats; an empty tuple is zero."""
    rest = list(values)
    parts = []
    try:
        while head := math.fsum(rest):
            parts.append(head)
            rest.append(-head)
    except OverflowError:
        # What went in and what was split off already cancel exactly, so the sum is still that of `rest` and `parts`.
        return _exact_sum_of_rationals([*rest, *parts])
    return tuple(parts)


def _exact_sum_of_rationals(values: list[float]) -> Parts:
    left = sum(map(Fraction, values), Fraction())
    parts = []
    while left:
        try:
            head = float(left)
        except OverflowError:
            head = _LARGEST if left > 0 else -_LARGEST
        parts.append(head)
        left -= Fraction(head)
    return tuple(parts)


def product(left: float, right: float) -> Parts:
    """The product of two finite floats, exact unless its low half underflows (the same way on every machine).

    Raises:
        OverflowError: the product is beyond the range of a float.
    """
    if right == 1.0:
        return (left,) if left else ()
    exact = Fraction(left) * Fraction(right)
    high = float(exact)
    low = float(exact - Fraction(high))
    return tuple(part for part in (high, low) if part)


def as_fraction(parts: Parts) -> Fraction:
    """The exact sum as a rational number."""
    return sum(map(Fraction, parts), Fraction())


def rounded(parts: Parts) -> float:
    """The exact sum, correctly rounded.

    Raises:
        OverflowError: the sum is beyond the range of a float.
    """
    return math.fsum(parts) if parts else 0.0


def quotient(numerator: Parts, denominator: Parts) -> float:
    """The exact ratio of two sums, correctly rounded."""
    return float(as_fraction(numerator) / as_fraction(denominator))
