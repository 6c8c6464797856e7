# SPDX-License-Identifier: Apache-2.0
"""The share of each term in the advantage and in the reward, by hand and by what must hold for every reward."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.report.shares import AdvantageShares, RewardShares, advantage_parts, deviations, weights_explain
from posttrain.rewards.stage.estimators import ESTIMATORS


def _advantages(finals: list[float], estimator: str) -> list[float]:
    return list(ESTIMATORS[estimator].advantages(finals, 1.0))


def test_a_part_is_the_scaled_deviation_of_its_weighted_term() -> None:
    """The parts of each advantage follow from the definition, and add up to it."""
    # Weighted: right 1 0 1 0, long 0 0 -0.5 -0.5, so the finals are 1, 0, 0.5, -0.5 with mean 0.25. The advantages
    # here are twice the deviations 0.75, -0.25, 0.25, -0.75, so the scale is 2. The weighted terms' means: 0.5, -0.25.
    terms = {"right": [1.0, 0.0, 1.0, 0.0], "long": [0.0, 0.0, 1.0, 1.0]}
    finals, advantages = [1.0, 0.0, 0.5, -0.5], [1.5, -0.5, 0.5, -1.5]
    parts = advantage_parts(terms, {"right": 1.0, "long": -0.5}, finals, advantages)
    assert parts == {"right": [1.0, -1.0, 1.0, -1.0], "long": [0.5, 0.5, -0.5, -0.5]}


def test_the_share_of_the_advantage_by_hand() -> None:
    """Two groups with different scales give the sums of their products, divided."""
    shares = AdvantageShares()
    # First group, from the test above: sum A A = 2.25 + 0.25 + 0.25 + 2.25 = 5; right: 1.5 + 0.5 + 0.5 + 1.5 = 4;
    # long: 0.75 - 0.25 - 0.25 + 0.75 = 1.
    shares.add({"right": [1.0, -1.0, 1.0, -1.0], "long": [0.5, 0.5, -0.5, -0.5]}, [1.5, -0.5, 0.5, -1.5])
    # Second group: only the length differs. sum A A = 2; long: 2.
    shares.add({"right": [0.0, 0.0], "long": [1.0, -1.0]}, [1.0, -1.0])
    assert shares.share("right") == 4 / 7
    assert shares.share("long") == 3 / 7
    assert shares.share("unheard of") == 0.0


def test_a_term_that_works_against_the_reward_has_a_negative_share() -> None:
    """A penalty that falls on the better candidate takes from the advantage."""
    # Weighted: 2 0 and -1 0, finals 1 and 0; deviations 1 -1, -0.5 0.5, 0.5 -0.5. With A = deviations: sum A A = 0.5;
    # right: 0.5 + 0.5 = 1; long: -0.25 - 0.25 = -0.5.
    shares = AdvantageShares()
    parts = advantage_parts(
        {"right": [2.0, 0.0], "long": [-1.0, 0.0]}, {"right": 1, "long": 1}, [1.0, 0.0], [0.5, -0.5]
    )
    assert parts is not None
    shares.add(parts, [0.5, -0.5])
    assert shares.share("right") == 2.0
    assert shares.share("long") == -1.0


def test_a_term_that_is_constant_in_each_group_has_a_share_of_the_reward_alone() -> None:
    """What differs only between groups moves rewards, and no advantage."""
    # Finals 0 1 and 10 11: level 0 0 10 10 and right 0 1 0 1. Deviations of the finals about 5.5: -5.5 -4.5 4.5 5.5,
    # squares sum to 101; with level about 5: 27.5 + 22.5 + 22.5 + 27.5 = 100; with right about 0.5: 2.75 - 2.25 - 2.25
    # + 2.75 = 1.
    reward, advantage = RewardShares(), AdvantageShares()
    weights = {"level": 1.0, "right": 1.0}
    for level in (0.0, 10.0):
        terms, finals = {"level": [level, level], "right": [0.0, 1.0]}, [level, level + 1]
        reward.add(terms, weights, finals)
        parts = advantage_parts(terms, weights, finals, [-0.5, 0.5])
        assert parts is not None
        advantage.add(parts, [-0.5, 0.5])
    assert reward.share("level") == pytest.approx(100 / 101)
    assert reward.share("right") == pytest.approx(1 / 101)
    assert advantage.share("level") == 0.0
    assert advantage.share("right") == 1.0


def test_a_group_without_a_term_counts_it_as_nothing() -> None:
    """Where tasks are mixed, a term of other groups adds 0 to the reward of this one."""
    # Finals 1 1 0 0 about 0.5; x is 1 1 0 0 and y is 0 0 0 0, its groups' values.
    shares = RewardShares()
    shares.add({"x": [1.0, 1.0]}, {"x": 1.0}, [1.0, 1.0])
    shares.add({"y": [0.0, 0.0]}, {"y": 1.0}, [0.0, 0.0])
    assert shares.share("x") == 1.0
    assert shares.share("y") == 0.0


@given(
    st.lists(st.tuples(*[st.integers(-20, 20).map(lambda value: value / 4)] * 3), min_size=2, max_size=8),
    st.tuples(*[st.sampled_from([-2.0, -0.5, 0.0, 0.25, 1.0])] * 3),
    st.sampled_from(sorted(ESTIMATORS)),
)
def test_parts_add_up_to_the_advantage_of_every_estimator(
    columns: list[tuple[float, ...]], weights: tuple[float, ...], estimator: str
) -> None:
    """For each estimator, the parts of a candidate's advantage sum to it, and the shares of all terms to 1."""
    names = ("a", "b", "c")
    terms = {name: [column[at] for column in columns] for at, name in enumerate(names)}
    heft = dict(zip(names, weights, strict=True))
    finals = [math.fsum(w * x for w, x in zip(weights, column, strict=True)) for column in columns]
    advantages = _advantages(finals, estimator)
    parts = advantage_parts(terms, heft, finals, advantages)
    assert parts is not None
    for place, advantage in enumerate(advantages):
        assert math.fsum(part[place] for part in parts.values()) == pytest.approx(advantage, abs=1e-9)
    shares = AdvantageShares()
    shares.add(parts, advantages)
    found = [shares.share(name) for name in names]
    if any(advantages):
        assert math.fsum(each for each in found if each is not None) == pytest.approx(1.0)
    else:
        assert found == [None] * 3


@given(st.lists(st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=1, max_size=5), min_size=1))
def test_shares_of_the_reward_are_the_covariances_of_the_whole(groups: list[list[tuple[int, int]]]) -> None:
    """Adding group by group gives the plain two-pass covariances over all candidates."""
    shares = RewardShares()
    for group in groups:
        terms = {"a": [float(a) for a, _ in group], "b": [float(b) for _, b in group]}
        shares.add(terms, {"a": 1.0, "b": 1.0}, [float(a + b) for a, b in group])
    pairs = [pair for group in groups for pair in group]
    totals = [a + b for a, b in pairs]
    centre = math.fsum(totals) / len(totals)
    variance = math.fsum((each - centre) ** 2 for each in totals)
    covariance = math.fsum(a * (each - centre) for (a, _), each in zip(pairs, totals, strict=True))
    if variance > 1e-9:
        assert shares.share("a") == pytest.approx(covariance / variance, abs=1e-9)


def test_shares_of_parts_of_a_run_add_up() -> None:
    """Merging what two steps hold gives what one would have held."""
    whole, left, right = AdvantageShares(), AdvantageShares(), AdvantageShares()
    groups = [({"a": [1.0, -1.0], "b": [0.5, -0.5]}, [1.5, -1.5]), ({"a": [0.0, 0.0], "b": [2.0, -2.0]}, [2.0, -2.0])]
    for part, group in zip((left, right), groups, strict=True):
        part.add(*group)
        whole.add(*group)
    left.merge(right)
    assert left.share("a") == whole.share("a") == 3 / 12.5
    assert left.share("b") == whole.share("b") == 9.5 / 12.5


def test_deviations_of_equal_values_are_exactly_zero() -> None:
    """A mean that rounds leaves nothing behind."""
    assert deviations([0.1, 0.1, 0.1]) == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("finals", "terms", "explained"),
    [
        ([0.5, 1.0], {"a": [1.0, 2.0]}, True),
        ([0.1 + 0.2, 1.0], {"a": [0.6, 2.0]}, True),
        ([0.5, 1.1], {"a": [1.0, 2.0]}, False),
        ([1e300, 0.0], {"a": [2e300, 0.0]}, True),
        ([0.0, 0.0], {"b": [0.0, 0.0]}, False),
    ],
)
def test_weights_explain_rewards_up_to_rounding(
    finals: list[float], terms: dict[str, list[float]], *, explained: bool
) -> None:
    """A weighted sum that is off by more than rounding, or a term without a weight, is told apart."""
    assert weights_explain(terms, {"a": 0.5}, finals) is explained


def test_rewards_beyond_reach_have_no_share_rather_than_a_wrong_one() -> None:
    """Where a sum or a square leaves the range of a float, no share is told and nothing is NaN."""
    huge = 1.7e308
    assert advantage_parts({"a": [huge, huge, 0.0]}, {"a": 1.0}, [huge, huge, 0.0], [0.5, 0.5, -1.0]) is None
    reward = RewardShares()
    reward.add({"a": [huge, -huge]}, {"a": 1.0}, [huge, -huge])
    assert reward.share("a") is None
    advantage = AdvantageShares()
    advantage.add({"a": [1e200, -1e200]}, [1e200, -1e200])
    assert advantage.is_beyond_range
    assert advantage.share("a") is None
