# SPDX-License-Identifier: Apache-2.0
"""Exact sums: the same bits in any order and any grouping, equal to rational arithmetic, rounded once."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.rewards.metrics.exact import Parts, as_fraction, exact_sum, product, quotient, rounded
from strategies import finite_floats, weights, wide_floats

LARGEST = sys.float_info.max
TINIEST = 5e-324

columns = st.lists(wide_floats, max_size=12)


def _bits(parts: Parts) -> list[str]:
    # Hexadecimal shows every bit, the sign of a zero included.
    return [part.hex() for part in parts]


def _truth(values: list[float]) -> Fraction:
    return sum(map(Fraction, values), Fraction())


@given(columns)
def test_a_sum_equals_rational_arithmetic(values: list[float]) -> None:
    """The parts stand for the exact total, near-overflow, subnormal and cancelling values included."""
    assert as_fraction(exact_sum(values)) == _truth(values)


@given(columns, st.randoms(use_true_random=False))
def test_order_does_not_change_a_bit(values: list[float], chance: Any) -> None:
    """Any permutation of the values gives the very same parts."""
    other = list(values)
    chance.shuffle(other)
    assert _bits(exact_sum(other)) == _bits(exact_sum(values))


@given(st.data())
def test_grouping_does_not_change_a_bit(data: st.DataObject) -> None:
    """Sums of sums, in any tree over the values, give the very same parts as one sum over all."""
    values = data.draw(columns)
    piles: list[Parts] = [exact_sum([value]) for value in values]
    while len(piles) > 1:
        taken = data.draw(st.sets(st.integers(0, len(piles) - 1), min_size=2, max_size=3))
        merged = exact_sum(part for index in sorted(taken, reverse=True) for part in piles[index])
        piles = [pile for index, pile in enumerate(piles) if index not in taken]
        piles.insert(data.draw(st.integers(0, len(piles))), merged)
    assert _bits(piles[0] if piles else ()) == _bits(exact_sum(values))


@given(columns)
def test_each_part_is_what_the_ones_before_left_over(values: list[float]) -> None:
    """The first part is the total rounded to a float, capped at the largest; the next is the rest rounded."""
    left = _truth(values)
    for part in exact_sum(values):
        try:
            expected = float(left)
        except OverflowError:
            expected = LARGEST if left > 0 else -LARGEST
        assert part.hex() == expected.hex()
        left -= Fraction(part)
    assert left == 0


@given(columns)
def test_reading_rounds_once(values: list[float]) -> None:
    """The number that is read is the exact total, correctly rounded."""
    try:
        expected = float(_truth(values))
    except OverflowError:
        with pytest.raises(OverflowError, match="overflow"):
            rounded(exact_sum(values))
        return
    assert rounded(exact_sum(values)) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], ()),
        ([0.0, -0.0], ()),
        ([-0.0], ()),
        ([0.5], (0.5,)),
        ([1.0, 2.0, 3.0], (6.0,)),
        # Both cancel to the last bit, in an order where a running sum would have lost the 1.
        ([1e308, 1.0, -1e308], (1.0,)),
        ([1e16, 1.0, -1e16], (1.0,)),
        # 1e308 + 1e308 is beyond the range of a float on the way, the total is not.
        ([1e308, 1e308, -1e308], (1e308,)),
        # The total is beyond the range: the largest float stands first, the rest after it.
        ([LARGEST, LARGEST], (LARGEST, LARGEST)),
        ([-LARGEST, -LARGEST], (-LARGEST, -LARGEST)),
        # 2**53 + 1 lies between two floats, and half to even takes the lower one.
        ([2.0**53, 1.0], (2.0**53, 1.0)),
        # 2**53 + 3 is the midpoint of 2**53 + 2 and 2**53 + 4; the latter has the even last bit.
        ([2.0**53, 3.0], (2.0**53 + 4, -1.0)),
        ([1.0, TINIEST], (1.0, TINIEST)),
        ([TINIEST, TINIEST], (1e-323,)),
        ([TINIEST, -TINIEST], ()),
        ([LARGEST, TINIEST], (LARGEST, TINIEST)),
    ],
)
def test_sums_worked_out_by_hand(values: list[float], expected: Parts) -> None:
    """Cancellation, overflow on the way, ties and subnormals come out as on paper."""
    assert _bits(exact_sum(values)) == _bits(expected)
    assert _bits(exact_sum(reversed(values))) == _bits(expected)


def test_ten_tenths_are_not_one() -> None:
    """The float 0.1 is a little more than a tenth, and the sum keeps that little more until it is read."""
    # float(0.1) = 3602879701896397 / 2**55, ten of them exceed 1 by 36028797018963970/2**55 - 1 = 2**-54 (2/2**55).
    parts = exact_sum([0.1] * 10)
    assert as_fraction(parts) == 1 + Fraction(1, 2**54)
    assert parts == (1.0, 2.0**-54)
    assert rounded(parts) == 1.0


def test_a_sum_takes_any_iterable() -> None:
    """A generator is summed like a list, and its values are asked for once."""
    assert exact_sum(value / 4 for value in range(5)) == (2.5,)


def test_nothing_sums_to_zero() -> None:
    """The empty sum reads as a positive zero."""
    assert math.copysign(1.0, rounded(())) == 1.0


@given(st.floats(-1e100, 1e100), weights)
def test_a_product_is_exact(value: float, weight: float) -> None:
    """The two halves of a product stand for it exactly, away from underflow."""
    if 0 < abs(value) < 1e-200:
        value *= 1e150
    parts = product(value, weight)
    assert as_fraction(parts) == Fraction(value) * Fraction(weight)
    assert len(parts) <= 2


@given(finite_floats)
def test_a_product_with_one_is_the_value(value: float) -> None:
    """The usual weight of 1 changes nothing, at any magnitude; a zero of either sign is the empty sum."""
    assert product(value, 1.0) == ((value,) if value else ())


def test_a_product_out_of_range_is_refused() -> None:
    """A product beyond the largest float raises instead of turning into infinity."""
    with pytest.raises(OverflowError, match="too large"):
        product(1e200, 1e200)


@given(st.lists(wide_floats, min_size=1, max_size=8), st.lists(weights, min_size=1, max_size=8))
def test_a_ratio_is_correctly_rounded(above: list[float], below: list[float]) -> None:
    """The ratio of two sums is the exact ratio, rounded once."""
    try:
        expected = float(_truth(above) / _truth(below))
    except OverflowError:
        with pytest.raises(OverflowError, match="too large"):
            quotient(exact_sum(above), exact_sum(below))
        return
    assert quotient(exact_sum(above), exact_sum(below)) == expected


@pytest.mark.parametrize(
    ("above", "below", "expected"),
    [((1.0,), (3.0,), 1 / 3), ((), (7.0,), 0.0), ((LARGEST, LARGEST), (2.0,), LARGEST), ((-1.0,), (4.0,), -0.25)],
)
def test_ratios_worked_out_by_hand(above: Parts, below: Parts, expected: float) -> None:
    """A total beyond the range of a float still has a mean inside it, and an empty sum has the mean zero."""
    assert quotient(above, below) == expected
