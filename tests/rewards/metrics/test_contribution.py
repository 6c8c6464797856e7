# SPDX-License-Identifier: Apache-2.0
"""Diagnostics of one kind merge exactly; other kinds and values that are no numbers are refused."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.errors import RewardContractError
from posttrain.rewards.metrics.contribution import MetricContribution, merge_all
from strategies import finite_floats, weights, wide_floats

LARGEST = sys.float_info.max
MAKERS: dict[str, Callable[..., MetricContribution]] = {
    "mean": MetricContribution.mean,
    "total": MetricContribution.total,
    "minimum": MetricContribution.minimum,
    "maximum": MetricContribution.maximum,
}

# Every weight that is taken, and every value whose product with any of them is promised to be exact.
heavy_and_light = st.one_of(weights, st.floats(1e-18, 1e18), st.sampled_from([1e-18, 1e18]))
exact_values = st.one_of(
    st.floats(1e-250, 1e250), st.floats(-1e250, -1e-250), st.sampled_from([0.0, 1e-250, -1e-250, 1e250])
)
weighted = st.lists(st.tuples(exact_values, heavy_and_light), min_size=1, max_size=8)


def _bits(contribution: MetricContribution) -> tuple[object, ...]:
    numerator = [part.hex() for part in contribution.numerator]
    return contribution.kind, numerator, [part.hex() for part in contribution.weight]


def _merged_at_random(data: st.DataObject, each: list[MetricContribution]) -> MetricContribution:
    piles = list(data.draw(st.permutations(each)))
    while len(piles) > 1:
        index = data.draw(st.integers(0, len(piles) - 2))
        piles[index : index + 2] = [piles[index].merge(piles[index + 1])]
    return piles[0]


@given(weighted)
def test_a_weighted_mean_is_correctly_rounded(pairs: list[tuple[float, float]]) -> None:
    """The value is the exact weighted mean of everything merged, rounded once."""
    above = sum((Fraction(value) * Fraction(weight) for value, weight in pairs), Fraction())
    below = sum((Fraction(weight) for _, weight in pairs), Fraction())
    merged = merge_all([MetricContribution.mean(value, weight) for value, weight in pairs])
    assert merged.value == float(above / below)


@given(st.lists(wide_floats, min_size=1, max_size=8))
def test_an_unweighted_mean_is_correctly_rounded_at_any_magnitude(values: list[float]) -> None:
    """With the default weight even sums beyond the range of a float and subnormal values average exactly."""
    expected = float(sum(map(Fraction, values), Fraction()) / len(values))
    assert merge_all([MetricContribution.mean(value) for value in values]).value == expected


@given(st.lists(wide_floats, min_size=1, max_size=8))
def test_a_total_is_correctly_rounded(values: list[float]) -> None:
    """The value is the exact sum, rounded once; beyond the range of a float it is refused, never infinite."""
    merged = merge_all([MetricContribution.total(value) for value in values])
    try:
        expected = float(sum(map(Fraction, values), Fraction()))
    except OverflowError:
        with pytest.raises(RewardContractError, match="a total went beyond the range of a float"):
            _ = merged.value
        return
    assert merged.value == expected


@given(st.lists(wide_floats, min_size=1, max_size=8))
def test_extremes_are_those_of_all_values(values: list[float]) -> None:
    """Minimum and maximum are the smallest and largest value, unrounded."""
    assert merge_all([MetricContribution.minimum(value) for value in values]).value == min(values)
    assert merge_all([MetricContribution.maximum(value) for value in values]).value == max(values)


@given(st.data(), st.sampled_from(sorted(MAKERS)))
def test_any_order_and_grouping_gives_the_same_bits(data: st.DataObject, kind: str) -> None:
    """Merging in any tree gives the state of merging all at once, bit for bit, signed zeros included."""
    values = data.draw(st.lists(wide_floats, min_size=1, max_size=8))
    each = [MAKERS[kind](value) for value in values]
    whole = _bits(merge_all(each))
    assert _bits(_merged_at_random(data, each)) == whole


@given(st.data())
def test_any_order_and_grouping_of_weighted_means_gives_the_same_bits(data: st.DataObject) -> None:
    """The same holds with weights, down to values whose products underflow."""
    pairs = data.draw(st.lists(st.tuples(st.floats(-1e100, 1e100), weights), min_size=1, max_size=6))
    each = [MetricContribution.mean(value, weight) for value, weight in pairs]
    assert _bits(_merged_at_random(data, each)) == _bits(merge_all(each))


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        # (0.5 · 3 + 1 · 1) / 4.
        ([MetricContribution.mean(0.5, 3), MetricContribution.mean(1.0)], 0.625),
        ([MetricContribution.mean(-0.0)], 0.0),
        ([MetricContribution.mean(LARGEST), MetricContribution.mean(LARGEST)], LARGEST),
        ([MetricContribution.mean(1.0, 10**6), MetricContribution.mean(0.0, 3 * 10**6)], 0.25),
        ([MetricContribution.total(1e308), MetricContribution.total(1.0), MetricContribution.total(-1e308)], 1.0),
        ([MetricContribution.total(0)], 0.0),
        ([MetricContribution.minimum(2), MetricContribution.minimum(-1)], -1.0),
        ([MetricContribution.maximum(2), MetricContribution.maximum(-1)], 2.0),
    ],
    ids=str,
)
def test_merges_worked_out_by_hand(parts: list[MetricContribution], expected: float) -> None:
    """Each kind merges as its name says, and gives a plain float."""
    value = merge_all(parts).value
    assert value == expected
    assert type(value) is float


def test_the_sign_of_an_extreme_zero_does_not_depend_on_order() -> None:
    """-0.0 counts as 0.0, alone and beside the other zero, whichever came first."""
    for values in ([0.0, -0.0], [-0.0, 0.0], [-0.0]):
        lowest = merge_all([MetricContribution.minimum(value) for value in values])
        assert _bits(lowest) == ("minimum", ["0x0.0p+0"], [])
        highest = merge_all([MetricContribution.maximum(value) for value in values])
        assert _bits(highest) == ("maximum", ["0x0.0p+0"], [])


@pytest.mark.parametrize("one", sorted(MAKERS))
@pytest.mark.parametrize("other", sorted(MAKERS))
def test_only_one_kind_merges(one: str, other: str) -> None:
    """Merging two kinds is refused and both are named; one kind merges."""
    left, right = MAKERS[one](1.0), MAKERS[other](2.0)
    if one == other:
        assert left.merge(right).kind == one
        return
    kinds = ", ".join(sorted([one, other]))
    with pytest.raises(RewardContractError, match=f"can't merge metrics of different kinds: {kinds}"):
        left.merge(right)


def test_every_kind_in_a_bad_merge_is_named() -> None:
    """All kinds that met under one name are listed, not just the first two."""
    with pytest.raises(RewardContractError, match="maximum, mean, minimum, total"):
        merge_all([make(1.0) for make in MAKERS.values()])


class _Scalar:
    """Looks to a reader without torch as a 0-d tensor does."""

    ndim = 0

    def item(self) -> float:
        return 0.5


@pytest.mark.parametrize("kind", sorted(MAKERS))
@pytest.mark.parametrize(
    "value", [np.float32(0.5), np.float64(0.5), np.array(0.5), Fraction(1, 2), _Scalar()], ids=repr
)
def test_scalars_of_other_libraries_are_taken(kind: str, value: Any) -> None:
    """Scalars of numpy and 0-d arrays or tensors become Python floats when the contribution is made."""
    assert _bits(MAKERS[kind](value)) == _bits(MAKERS[kind](0.5))


@pytest.mark.parametrize("kind", sorted(MAKERS))
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (True, r"True \(bool\)"),
        (math.nan, r"nan \(float\)"),
        (math.inf, r"inf \(float\)"),
        (-math.inf, r"-inf \(float\)"),
        ("0.5", r"'0\.5' \(str\)"),
        (None, "None"),
        (1j, r"1j \(complex\)"),
        (10**400, "an int of 1329 bits"),  # 400 · log2(10) = 1328.8
        (np.array([0.5]), r"array\(\[0\.5\]\) \(numpy\.ndarray\)"),
    ],
    ids=["bool", "nan", "inf", "minus inf", "str", "none", "complex", "huge", "array"],
)
def test_values_that_are_no_numbers_are_refused_when_made(kind: str, value: Any, shown: str) -> None:
    """The error says what a metric is made of and what came."""
    with pytest.raises(RewardContractError, match=f"^a metric's value is a finite number, got {shown}$"):
        MAKERS[kind](value)


@pytest.mark.parametrize("weight", [True, math.nan, math.inf, "1", None])
def test_a_weight_is_a_finite_number(weight: Any) -> None:
    """A weight is refused by the same rule as a value, under its own name."""
    with pytest.raises(RewardContractError, match=r"^a metric's weight is a finite number, got "):
        MetricContribution.mean(1.0, weight)


@pytest.mark.parametrize(
    "weight",
    [0, 0.0, -0.0, -1, -5e-324, math.nextafter(1e-18, 0.0), math.nextafter(1e18, math.inf), -1e18, 10**18 + 1000],
)
def test_a_weight_is_positive_and_of_a_sane_size(weight: float) -> None:
    """No weight makes a mean of nothing, a mean outside its values, or a product that a float can't carry exactly."""
    with pytest.raises(RewardContractError, match=r"^a mean's weight is in \[1e-18, 1e\+18\], got "):
        MetricContribution.mean(1.0, weight)


@pytest.mark.parametrize("weight", [1e-18, 1e18, 10**18])
def test_the_bounds_of_a_weight_belong_to_it(weight: float) -> None:
    """The lightest and the heaviest weight are taken."""
    assert MetricContribution.mean(0.1, weight).value == 0.1


def test_a_weighted_value_out_of_range_is_refused() -> None:
    """A product of value and weight beyond the largest float is refused with both factors, not made infinite."""
    with pytest.raises(RewardContractError, match=r"beyond the range of a float: 1e\+300 \(float\) × 1e\+18 \(float\)"):
        MetricContribution.mean(1e300, 1e18)


@given(exact_values, heavy_and_light)
def test_one_weighted_value_is_its_own_mean(value: float, weight: float) -> None:
    """Whatever its weight, the mean of a single value is that value, down to 1e-250 with a weight of 1e-18."""
    assert MetricContribution.mean(value, weight).value == value


@given(wide_floats)
def test_one_value_without_a_weight_is_its_own_mean(value: float) -> None:
    """With the default weight no value is too small or too large."""
    assert MetricContribution.mean(value).value == value


def test_a_contribution_does_not_change() -> None:
    """Merging makes a new one; the fields can't be written to."""
    one = MetricContribution.total(1.0)
    one.merge(MetricContribution.total(2.0))
    assert one.value == 1.0
    with pytest.raises(AttributeError, match="immutable"):
        one.kind = "mean"  # type: ignore[misc]  # the mistake under test


@given(st.sampled_from(sorted(MAKERS)), st.lists(finite_floats, min_size=1, max_size=5))
def test_contributions_survive_json_msgpack_and_pickle(
    pickled: Callable[..., Any], kind: str, values: list[float]
) -> None:
    """Written and read again they are the same, bit for bit."""
    merged = merge_all([MAKERS[kind](value) for value in values])
    assert _bits(msgspec.json.decode(msgspec.json.encode(merged), type=MetricContribution)) == _bits(merged)
    assert _bits(msgspec.msgpack.decode(msgspec.msgpack.encode(merged), type=MetricContribution)) == _bits(merged)
    assert _bits(pickled(merged)) == _bits(merged)


def test_an_unknown_kind_is_refused_when_read() -> None:
    """A file that names another kind is not taken for one of the four."""
    with pytest.raises(msgspec.ValidationError, match="median"):
        msgspec.json.decode(b'{"kind": "median", "numerator": [1.0]}', type=MetricContribution)
