# SPDX-License-Identifier: Apache-2.0
"""From pairs to scores, against values that are derived by hand."""

from __future__ import annotations

from itertools import combinations
from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.judges.pairwise.strength import Outcome, bradley_terry, win_rate


@pytest.mark.parametrize(
    ("prior", "first", "second"),
    [
        # Strengths t and -t with x = e^t: 1 / (1 + x^2) = prior / 2 * (x - 1) / (x + 1), and the score is x / (1 + x).
        # prior 6/5: 1/5 = 3/5 * 1/3, so x = 2. prior 2/5: 1/10 = 1/5 * 1/2, so x = 3.
        (6 / 5, 2 / 3, 1 / 3),
        (2 / 5, 3 / 4, 1 / 4),
    ],
)
def test_one_game(prior: float, first: float, second: float) -> None:
    """One win between two has a solution in small fractions for some priors."""
    assert bradley_terry(2, [Outcome(0, 1, 1.0)], prior) == pytest.approx([first, second], abs=1e-12)


def test_one_beats_two_that_are_equal() -> None:
    """A beats B and C, which tie.

    By symmetry B and C share a strength s, A has t. With tanh(s/2) = -u the scores' mean of 1/2 gives tanh(t/2) = 2u,
    and A's equation 2 s(s - t) = prior / 2 * tanh(t/2) is 1 - 3u / (1 + 2u^2) = prior * u. For u = 1/4 it holds with
    prior 4/3: 1 - 2/3 = 1/3. The scores are (1 + 2u) / 2 = 3/4 and (1 - u) / 2 = 3/8.
    """
    outcomes = [Outcome(0, 1, 1.0), Outcome(0, 2, 1.0), Outcome(1, 2, 0.5)]
    assert bradley_terry(3, outcomes, 4 / 3) == pytest.approx([3 / 4, 3 / 8, 3 / 8], abs=1e-12)


def test_only_ties_leave_no_spread() -> None:
    """Every score is then exactly one half, so that the group has no advantage at all."""
    outcomes = [Outcome(one, other, 0.5) for one, other in combinations(range(6), 2)]
    assert bradley_terry(6, outcomes, 1.0) == [0.5] * 6
    assert bradley_terry(3, [], 1.0) == [0.5] * 3


@pytest.mark.parametrize(("size", "prior"), [(2, 0.1), (8, 0.1), (8, 1.0), (40, 1.0), (40, 1e3)])
def test_the_winner_of_everything_is_finite(size: int, prior: float) -> None:
    """A group in which the lower place always wins has scores inside (0, 1), in that order, with mean 1/2."""
    outcomes = [Outcome(one, other, 1.0) for one, other in combinations(range(size), 2)]
    scores = bradley_terry(size, outcomes, prior)
    assert all(0 < score < 1 for score in scores)
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == size
    assert sum(scores) / size == pytest.approx(0.5, abs=1e-9)


@st.composite
def tournaments(draw: st.DrawFn) -> tuple[int, list[Outcome]]:
    """Any outcomes of any pairs."""
    size = draw(st.integers(2, 7))
    pairs = draw(st.lists(st.sampled_from(list(combinations(range(size), 2))), max_size=15))
    return size, [Outcome(one, other, draw(st.sampled_from([0, 0.25, 0.5, 1.0]))) for one, other in pairs]


@given(tournaments(), st.sampled_from([0.1, 1.0, 50.0]))
def test_the_scores_are_where_the_slope_is_zero(played: tuple[int, list[Outcome]], prior: float) -> None:
    """At the maximum each candidate's wins, the imagined half of the prior among them, are as many as expected."""
    size, outcomes = played
    scores = bradley_terry(size, outcomes, prior)
    odds = [score / (1 - score) for score in scores]
    for at in range(size):
        won = sum(share if first == at else 1 - share for first, second, share in outcomes if at in (first, second))
        expected = sum(
            odds[at] / (odds[first] + odds[second]) for first, second, _ in outcomes if at in (first, second)
        )
        assert won + prior / 2 == pytest.approx(expected + prior * scores[at], abs=1e-6)


def test_more_prior_pulls_to_the_middle() -> None:
    """The score of the winner falls towards one half."""
    scores = [bradley_terry(2, [Outcome(0, 1, 1.0)], prior)[0] for prior in (0.01, 0.1, 1.0, 10.0, 100.0)]
    assert scores == sorted(scores, reverse=True)
    assert 0.5 < scores[-1] < 0.51


def test_many_games_come_near_the_true_strengths() -> None:
    """With exact shares s(a - b) and a small prior the scores are those of the strengths that made them."""
    strength = [1.0, 0.0, -1.0]
    share = {(one, other): 1 / (1 + exp(strength[other] - strength[one])) for one, other in combinations(range(3), 2)}
    outcomes = [Outcome(one, other, value) for (one, other), value in share.items()] * 500
    expected = [1 / (1 + exp(-each)) for each in strength]
    assert bradley_terry(3, outcomes, 0.1) == pytest.approx(expected, abs=1e-3)


def test_win_rates() -> None:
    """A beats B, A and C tie, B beats C: 1.5 of 2, 1 of 2, 0.5 of 2."""
    outcomes = [Outcome(0, 1, 1.0), Outcome(0, 2, 0.5), Outcome(1, 2, 1.0)]
    assert win_rate(3, outcomes) == [0.75, 0.5, 0.25]
