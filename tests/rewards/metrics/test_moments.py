# SPDX-License-Identifier: Apache-2.0
"""Count, mean, spread and range: exact, mergeable in any grouping, right at any magnitude."""

from __future__ import annotations

import itertools
import math
import statistics
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.rewards.metrics.moments import Moments, merge_moments
from strategies import wide_floats

LARGEST = sys.float_info.max
TINIEST = 5e-324

columns = st.lists(wide_floats.map(lambda value: value + 0.0), min_size=1, max_size=10)
"""Values without a negative zero, whose sign the range does not keep the same in any order."""


def _bits(moments: Moments) -> tuple[object, ...]:
    total = [part.hex() for part in moments.total]
    return moments.count, total, moments.squares, moments.low.hex(), moments.high.hex()


def _variance(values: list[float]) -> Fraction:
    exact = [Fraction(value) for value in values]
    mean = sum(exact, Fraction()) / len(exact)
    return sum(((value - mean) ** 2 for value in exact), Fraction()) / len(exact)


@given(columns)
def test_moments_agree_with_rational_arithmetic(values: list[float]) -> None:
    """Count, mean and range are those of the values; the mean is correctly rounded."""
    moments = Moments.of(values)
    assert moments.count == len(values)
    assert moments.mean == float(sum(map(Fraction, values), Fraction()) / len(values))
    assert (moments.low, moments.high) == (min(values), max(values))


@given(columns)
def test_spread_is_within_two_units_of_the_exact_one(values: list[float]) -> None:
    """The population standard deviation brackets the exact one: two floats below it and two above it enclose it."""
    std, variance = Moments.of(values).std, _variance(values)
    below = math.nextafter(math.nextafter(std, 0.0), 0.0)
    assert Fraction(below) ** 2 <= variance
    above = math.nextafter(math.nextafter(std, math.inf), math.inf)
    assert above == math.inf or variance <= Fraction(above) ** 2


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=10))
def test_spread_agrees_with_the_standard_library(values: list[float]) -> None:
    """On ordinary rewards the spread is that of statistics.pstdev, to within one unit in the last place."""
    expected = statistics.pstdev(values)
    assert abs(Moments.of(values).std - expected) <= math.ulp(expected)


@given(wide_floats, st.integers(1, 50))
def test_no_spread_is_exactly_zero(value: float, count: int) -> None:
    """Equal values have a spread of 0.0, where a difference of rounded squares would leave dust."""
    moments = Moments.of([value] * count)
    assert moments.std == 0.0
    assert moments.mean == value


@pytest.mark.parametrize(
    ("values", "mean", "std"),
    [
        ([0.5], 0.5, 0.0),
        # Mean 2, squared distances 1, 0, 1: variance 2/3.
        ([1.0, 2.0, 3.0], 2.0, math.sqrt(2 / 3)),
        # Mean 5 and squared distances 9 1 1 1 0 0 4 16: 32 / 8 = 4.
        ([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0], 5.0, 2.0),
        ([0.0, 1.0], 0.5, 0.5),
        # Both squares overflow a float, both sums do on the way: the distances from 0 are all LARGEST.
        ([LARGEST, -LARGEST], 0.0, LARGEST),
        ([LARGEST] * 3, LARGEST, 0.0),
        # Squares of 2e-300 underflow a float; the distances from the mean 2e-300 are 1e-300 each.
        ([1e-300, 3e-300], 2e-300, 1e-300),
        ([TINIEST, 3 * TINIEST], 2 * TINIEST, TINIEST),
        # A large common offset: distances 1 from the mean, lost by the textbook formula in floats.
        ([1e15, 1e15 + 2], 1e15 + 1, 1.0),
    ],
)
def test_moments_worked_out_by_hand(values: list[float], mean: float, std: float) -> None:
    """Ordinary, huge, tiny and offset values give what paper gives."""
    moments = Moments.of(values)
    assert moments.mean == mean
    assert moments.std == pytest.approx(std, rel=1e-15, abs=0.0)


@given(st.data())
def test_any_order_and_grouping_gives_the_same_bits(data: st.DataObject) -> None:
    """Values cut into piles, merged in any order and nesting, give the moments of the whole, bit for bit."""
    values = data.draw(columns)
    shuffled = data.draw(st.permutations(values))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=4)))
    piles = [Moments.of(shuffled[one:other]) for one, other in itertools.pairwise([0, *cuts, len(values)])]
    whole = _bits(Moments.of(values))
    assert _bits(merge_moments(piles)) == whole
    chained = Moments()
    for pile in data.draw(st.permutations(piles)):
        chained = chained.merge(pile)
    assert _bits(chained) == whole
    nested = merge_moments([merge_moments(piles[:2]), Moments(), merge_moments(piles[2:])])
    assert _bits(nested) == whole


@pytest.mark.parametrize("bound", ["low", "high"])
def test_the_sign_of_a_zero_in_the_range_does_not_depend_on_order(bound: str) -> None:
    """0.0 and -0.0 in either order have one range, bit for bit."""
    ranges = [getattr(Moments.of(values), bound) for values in ([0.0, -0.0], [-0.0, 0.0])]
    assert ranges[0].hex() == ranges[1].hex()


def test_nothing_has_empty_moments() -> None:
    """No values, and merging nothing, give the neutral element of merging."""
    assert Moments.of([]) == merge_moments([]) == merge_moments([Moments(), Moments()]) == Moments()
    some = Moments.of([1.0, 2.0])
    assert _bits(some.merge(Moments())) == _bits(Moments().merge(some)) == _bits(some)
    assert (Moments().count, Moments().low, Moments().high) == (0, 0.0, 0.0)


def test_moments_do_not_change() -> None:
    """Merging makes new moments; the parts can't be written to."""
    one = Moments.of([1.0])
    one.merge(Moments.of([2.0]))
    assert one == Moments.of([1.0])
    with pytest.raises(AttributeError, match="immutable"):
        one.count = 2  # type: ignore[misc]  # the mistake under test


@given(columns)
def test_moments_survive_json_msgpack_and_pickle(pickled: Callable[..., Any], values: list[float]) -> None:
    """Written and read again they are the same, bit for bit."""
    moments = Moments.of(values)
    assert _bits(msgspec.json.decode(msgspec.json.encode(moments), type=Moments)) == _bits(moments)
    assert _bits(msgspec.msgpack.decode(msgspec.msgpack.encode(moments), type=Moments)) == _bits(moments)
    assert _bits(pickled(moments)) == _bits(moments)


def test_empty_moments_survive_json() -> None:
    """The moments of a stage that scored nothing can be written and read again."""
    assert msgspec.json.decode(msgspec.json.encode(Moments()), type=Moments) == Moments()
