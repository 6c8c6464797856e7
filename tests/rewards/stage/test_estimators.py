# SPDX-License-Identifier: Apache-2.0
"""Advantages: worked out by hand, against the standard library, and against rational arithmetic for any floats."""

from __future__ import annotations

import math
import statistics
import sys
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from posttrain.errors import RewardConfigError
from posttrain.rewards.metrics.moments import Moments
from posttrain.rewards.stage.estimators import EPSILON, ESTIMATORS, estimator_named
from strategies import finite_floats, wide_floats

LARGEST = sys.float_info.max
NAMES = sorted(ESTIMATORS)

groups_of_any = st.lists(wide_floats, min_size=1, max_size=8)
# Every magnitude, in groups that often have a spread far below their size.
near_each_other = st.tuples(wide_floats, st.lists(st.integers(-3, 3), min_size=2, max_size=8)).map(
    lambda pair: (
        [value for value in (pair[0] + step * math.ulp(pair[0]) for step in pair[1]) if math.isfinite(value)] or [0.0]
    )
)
any_group = st.one_of(groups_of_any, near_each_other)
ordinary = st.lists(st.floats(-100, 100).map(lambda value: round(value, 3)), min_size=2, max_size=16)


def _advantages(name: str, finals: list[float], batch: list[float] | None = None) -> tuple[float, ...]:
    estimator = ESTIMATORS[name]
    return estimator.advantages(finals, estimator.batch_scale(Moments.of(finals if batch is None else batch)))


@pytest.mark.parametrize(
    ("name", "finals", "expected"),
    [
        # Mean 2, distances -1 0 1, squares 1 0 1, sample variance 2 / 2 = 1.
        ("group_norm", [1.0, 2.0, 3.0], [-1 / 1.0001, 0.0, 1 / 1.0001]),
        # Mean 0.5, distances ±0.5, sample variance 0.5 / 1.
        ("group_norm", [0.0, 1.0], [-0.5 / (math.sqrt(0.5) + 1e-4), 0.5 / (math.sqrt(0.5) + 1e-4)]),
        # Mean 0.25, squares 3 · 0.0625 + 0.5625 = 0.75, over 3: standard deviation 0.5.
        ("group_norm", [0.0, 0.0, 0.0, 1.0], [-0.25 / 0.5001] * 3 + [0.75 / 0.5001]),
        # Mean 4, distances -3 -1 4.
        ("group_mean", [1.0, 3.0, 8.0], [-3.0, -1.0, 4.0]),
        # Means of the others: 4, 3.5, 1.5.
        ("leave_one_out", [1.0, 2.0, 6.0], [-3.0, -1.5, 4.5]),
        # Means of the others: 1, 0.
        ("leave_one_out", [0.0, 1.0], [-1.0, 1.0]),
        # The group is the whole batch: mean 3, population variance (4 + 4) / 2.
        ("group_mean_batch_std", [1.0, 5.0], [-2 / 2.0001, 2 / 2.0001]),
    ],
)
def test_advantages_worked_out_by_hand(name: str, finals: list[float], expected: list[float]) -> None:
    """Each estimator gives what its formula says."""
    assert _advantages(name, finals) == pytest.approx(expected, rel=1e-15, abs=0)


def test_the_batch_spread_is_that_of_all_groups() -> None:
    """Distances are from the mean of the group, the spread is that of the batch, over all its candidates."""
    # Mean of 1 3 5 11 is 5; squared distances 16 4 0 36, over 4: 14.
    scale = math.sqrt(14) + 1e-4
    batch = [1.0, 3.0, 5.0, 11.0]
    assert _advantages("group_mean_batch_std", batch[:2], batch) == pytest.approx([-1 / scale, 1 / scale], rel=1e-15)
    assert _advantages("group_mean_batch_std", batch[2:], batch) == pytest.approx([-3 / scale, 3 / scale], rel=1e-15)


def test_only_one_estimator_looks_at_the_batch() -> None:
    """The other three do not depend on the rest of the batch."""
    batch = Moments.of([1.0, 3.0, 5.0, 11.0])
    assert {name: ESTIMATORS[name].batch_scale(batch) for name in NAMES} == {
        "group_mean": 1.0,
        "group_norm": 1.0,
        "leave_one_out": 1.0,
        "group_mean_batch_std": pytest.approx(math.sqrt(14), rel=1e-15),
    }
    assert [name for name in NAMES if ESTIMATORS[name].over_batch] == ["group_mean_batch_std"]
    assert EPSILON == 1e-4


@given(ordinary)
def test_group_norm_is_that_of_trl(finals: list[float]) -> None:
    """(r - mean) / (std + 1e-4) with the sample standard deviation, as TRL computes it with torch's default std."""
    mean, std = statistics.fmean(finals), statistics.stdev(finals)
    expected = [(final - mean) / (std + 1e-4) for final in finals]
    assert _advantages("group_norm", finals) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(ordinary)
def test_leave_one_out_leaves_one_out(finals: list[float]) -> None:
    """The baseline of a candidate is the mean of the others."""
    expected = [final - statistics.fmean(finals[:index] + finals[index + 1 :]) for index, final in enumerate(finals)]
    assert _advantages("leave_one_out", finals) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(ordinary, ordinary)
def test_group_mean_batch_std_is_that_of_diffusion_nft(finals: list[float], others: list[float]) -> None:
    """Group mean, population standard deviation over the batch, plus 1e-4."""
    batch = finals + others
    scale = statistics.pstdev(batch) + 1e-4
    expected = [(final - statistics.fmean(finals)) / scale for final in finals]
    assert _advantages("group_mean_batch_std", finals, batch) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def _root(value: Fraction) -> Fraction:
    """The square root to 60 digits."""
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 60, 10**6, -(10**6)
        return Fraction((Decimal(value.numerator) / Decimal(value.denominator)).sqrt())


def _exact(name: str, finals: list[float], batch_scale: float) -> tuple[list[Fraction], Fraction]:
    """The advantages in rational arithmetic, and what they were divided by."""
    exact, count = [Fraction(final) for final in finals], len(finals)
    mean = sum(exact, Fraction()) / count
    distances = [value - mean for value in exact]
    scale = Fraction(1)
    if name == "group_norm":
        scale = _root(sum((each * each for each in distances), Fraction()) / (count - 1)) + Fraction(EPSILON)
    elif name == "leave_one_out":
        scale = Fraction(count - 1, count)
    elif name == "group_mean_batch_std":
        scale = Fraction(batch_scale) + Fraction(EPSILON)
    return [each / scale for each in distances], scale


@given(st.sampled_from(NAMES), any_group, groups_of_any)
@example("group_norm", [1e200, -1e200], [0.0])
@example("group_norm", [1e155, 0.0], [0.0])
@example("group_norm", [1e308, -1e308], [0.0])
@example("group_norm", [2.0**500, 0.0, 1.0], [0.0])
@example("group_norm", [math.nextafter(2.0**500, 0), 0.0, 1.0], [0.0])
@example("group_mean", [LARGEST, -LARGEST, -LARGEST], [0.0])
@example("leave_one_out", [LARGEST, -LARGEST], [0.0])
@example("group_mean_batch_std", [1.0, 2.0], [LARGEST, -LARGEST])
@example("group_mean_batch_std", [LARGEST, -LARGEST], [0.0] * 8)
def test_advantages_agree_with_rational_arithmetic(name: str, finals: list[float], others: list[float]) -> None:
    """For any finite rewards, huge, tiny or close together, advantages are right to the precision of the rewards."""
    batch = finals + others
    got = _advantages(name, finals, batch)
    assert all(map(math.isfinite, got))
    if min(finals) == max(finals):
        assert got == (0.0,) * len(finals)
        return
    exact, scale = _exact(name, finals, ESTIMATORS[name].batch_scale(Moments.of(batch)))
    # Rounding the mean and the distances costs up to two units in the last place of the largest reward. They reach the
    # advantage divided by the scale, and once more through the scale itself.
    slack = 8 * Fraction(math.ulp(max(map(abs, finals)))) / scale
    for value, wanted in zip(got, exact, strict=True):
        bounded = max(Fraction(-LARGEST), min(Fraction(LARGEST), wanted))
        assert abs(Fraction(value) - bounded) <= slack * (1 + abs(wanted)) + abs(wanted) / 10**15 + Fraction(5e-324)


@pytest.mark.parametrize("name", NAMES)
@given(value=finite_floats, count=st.integers(1, 64))
@example(value=0.1, count=3)
@example(value=0.1, count=10)
@example(value=1e308, count=4)
@example(value=-5e-324, count=7)
def test_no_spread_is_exactly_zero(name: str, value: float, count: int) -> None:
    """Equal rewards get exactly 0.0 each, also where the float mean of equal values is another value."""
    got = _advantages(name, [value] * count)
    assert [each.hex() for each in got] == ["0x0.0p+0"] * count


def test_the_plain_mean_of_equal_values_may_differ() -> None:
    """What the test above guards against: 0.1 added up ten times is not 1.0."""
    total = 0.0
    for value in [0.1] * 10:
        total += value
    assert total / 10 != 0.1


@pytest.mark.parametrize("name", NAMES)
def test_zeros_of_both_signs_are_no_spread(name: str) -> None:
    """0.0 and -0.0 are one reward."""
    assert [each.hex() for each in _advantages(name, [0.0, -0.0])] == ["0x0.0p+0"] * 2


@pytest.mark.parametrize("name", NAMES)
def test_a_group_of_one_has_no_advantage(name: str) -> None:
    """One candidate has nothing to be compared with, also beside other groups."""
    assert _advantages(name, [3.5], [3.5, 100.0, -100.0]) == (0.0,)


@pytest.mark.parametrize(
    ("name", "finals", "expected"),
    [
        # ±1e308 around 0 with sample standard deviation √2 · 1e308.
        ("group_norm", [1e308, -1e308], [math.sqrt(0.5), -math.sqrt(0.5)]),
        ("group_norm", [1e200, -1e200], [math.sqrt(0.5), -math.sqrt(0.5)]),
        # The sum is beyond the largest float: mean 4/3e308, distances 1/3, 1/3 and -2/3.
        ("group_norm", [1.5e308, 1.5e308, 0.0], [math.sqrt(1 / 3), math.sqrt(1 / 3), -2 * math.sqrt(1 / 3)]),
        ("group_mean", [1.5e308, 1.5e308, 0.0], [0.5e308, 0.5e308, -1e308]),
        # The distance itself is beyond the largest float, and ends there.
        ("group_mean", [LARGEST, -LARGEST, -LARGEST], [LARGEST, -2 / 3 * LARGEST, -2 / 3 * LARGEST]),
        ("leave_one_out", [1e308, -1e308], [LARGEST, -LARGEST]),
        ("group_mean_batch_std", [1e308, -1e308], [1.0, -1.0]),
        # A spread far below epsilon: the sample standard deviation adds nothing to 1e-4.
        ("group_norm", [0.0, 1e-300], [-5e-301 / 1e-4, 5e-301 / 1e-4]),
        # Half of the smallest float rounds to nothing, so one of the two is the mean.
        ("group_mean", [0.0, 5e-324], [0.0, 5e-324]),
        ("group_norm", [0.0, 5e-324], [0.0, 5e-324 / 1e-4]),
    ],
)
def test_extreme_rewards(name: str, finals: list[float], expected: list[float]) -> None:
    """Neither sums nor squares out of range, nor subnormal rewards, lose a group its advantages."""
    assert _advantages(name, finals) == pytest.approx(expected, rel=1e-14, abs=0)


@given(ordinary)
def test_group_mean_sums_to_nothing(finals: list[float]) -> None:
    """Distances from the mean cancel, to the rounding of the mean."""
    total = math.fsum(_advantages("group_mean", finals))
    assert abs(total) <= len(finals) * math.ulp(max(map(abs, finals)))


@given(
    st.sampled_from(NAMES),
    st.sampled_from([2, 4, 8]).flatmap(lambda size: st.lists(st.integers(-1000, 1000), min_size=size, max_size=size)),
    st.integers(-1000, 1000),
)
def test_a_shift_of_all_rewards_changes_nothing(name: str, finals: list[int], shift: int) -> None:
    """Where every mean is exact, adding a number to all rewards changes no bit of an advantage."""
    plain, shifted = [float(final) for final in finals], [float(final + shift) for final in finals]
    assert _advantages(name, shifted) == _advantages(name, plain)


@given(st.data(), st.sampled_from(NAMES), any_group)
def test_the_order_of_candidates_changes_no_bit(data: st.DataObject, name: str, finals: list[float]) -> None:
    """Each candidate's advantage goes with it to any other place in the group."""
    order = data.draw(st.permutations(range(len(finals))))
    got = _advantages(name, finals)
    moved = _advantages(name, [finals[index] for index in order])
    assert [each.hex() for each in moved] == [got[index].hex() for index in order]


@pytest.mark.parametrize("name", NAMES)
def test_an_order_in_which_sums_overflow_gives_the_same(name: str) -> None:
    """Whether a running sum leaves the range of a float depends on the order of the rewards; the advantages do not."""
    first = _advantages(name, [1.7e308, 1.7e308, -1.7e308, -1.7e308, 1e-300])
    second = _advantages(name, [1.7e308, -1.7e308, 1.7e308, -1.7e308, 1e-300])
    assert [first[index].hex() for index in (0, 2, 1, 3, 4)] == [each.hex() for each in second]


@given(st.sampled_from(NAMES), any_group)
def test_a_better_reward_never_has_a_lower_advantage(name: str, finals: list[float]) -> None:
    """Advantages are in the order of the rewards."""
    ranked = sorted(zip(finals, _advantages(name, finals), strict=True))
    advantages = [advantage for _, advantage in ranked]
    assert advantages == sorted(advantages)


@pytest.mark.parametrize("name", ["grpo", "", "GROUP_NORM", None, 1, ["group_norm"]])
def test_an_unknown_estimator_is_refused(name: object) -> None:
    """Every estimator is named, and what came."""
    with pytest.raises(
        RewardConfigError,
        match="expected one of group_norm, group_mean, leave_one_out, group_mean_batch_std, got ",
    ):
        estimator_named(name)  # type: ignore[arg-type]  # the mistake under test


def test_every_estimator_goes_by_its_name() -> None:
    """The four names of the config."""
    assert [estimator_named(name).name for name in ESTIMATORS] == [
        "group_norm",
        "group_mean",
        "leave_one_out",
        "group_mean_batch_std",
    ]
