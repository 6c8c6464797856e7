# SPDX-License-Identifier: Apache-2.0
"""Best of n and pass@k, against numbers worked out by hand and against counting every choice."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.runs.validation.estimates import choices_of_k, held_out_metrics, pass_at_k


def rows(*groups: list[dict[str, float]] | None) -> list[bytes]:
    """Scored rows of these groups, as the file has them; None: a dropped group of two."""
    lines = []
    for at, group in enumerate(groups):
        members: Iterable[dict[str, float]] = [{}, {}] if group is None else group
        for place, reward in enumerate(members):
            row = {"trajectory_id": f"g{at}/{place}", "group_id": f"g{at}", "reward": reward, "advantage": None}
            if group is None:
                row["dropped_because"] = "rubric: TimeoutError"
            lines.append(json.dumps(row).encode())
    return lines


def of_term(*groups: str) -> list[bytes]:
    """Rows with the one term ``task``, which is ``final`` too; a group for each text of numbers."""
    return rows(*[[{"task": float(word), "final": float(word)} for word in group.split()] for group in groups])


@pytest.mark.parametrize(
    ("passed", "n", "k", "expected"),
    [
        # One of two passes: of the 2 choices of one candidate, 1 holds it.
        ({1: 1}, 2, 1, 0.5),
        # Of the C(4, 2) = 6 pairs, C(2, 2) = 1 holds neither of the two that pass: 5/6.
        ({2: 1}, 4, 2, 5 / 6),
        # Of the C(5, 3) = 10 triples, C(3, 3) = 1 holds neither of the two that pass.
        ({2: 1}, 5, 3, 0.9),
        # No choice can miss when fewer than k fail.
        ({3: 1}, 4, 2, 1.0),
        ({0: 1}, 4, 4, 0.0),
        ({4: 1}, 4, 1, 1.0),
        # Three groups of 4 with 0, 1 and 2 that pass, k = 2: (0 + 3/6 + 5/6) / 3 = 4/9.
        ({0: 1, 1: 1, 2: 1}, 4, 2, 4 / 9),
        # Two groups with none and one with all: a third.
        ({0: 2, 3: 1}, 3, 3, 1 / 3),
    ],
)
def test_pass_at_k_by_hand(passed: dict[int, int], n: int, k: int, expected: float) -> None:
    """The share of the choices of k candidates that hold one that passes, averaged over groups."""
    assert pass_at_k(passed, n, k) == expected


@given(st.integers(1, 7).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.integers(0, n), min_size=1, max_size=4))))
def test_pass_at_k_is_the_share_of_all_choices(case: tuple[int, list[int]]) -> None:
    """Every choice of k candidates, counted one by one, gives the same number to the last bit."""
    n, counts = case
    for k in range(1, n + 1):
        shares = []
        for count in counts:
            choices = list(combinations([True] * count + [False] * (n - count), k))
            shares.append(Fraction(sum(map(any, choices)), len(choices)))
        assert pass_at_k(Counter(counts), n, k) == float(sum(shares) / len(counts))


def test_pass_at_k_is_rounded_once() -> None:
    """Where binomials are far beyond a float, the result is still the exact one, rounded."""
    # One of 2000 passes: the share of the choices that hold it is k / n.
    assert pass_at_k({1: 1}, 2000, 1024) == 1024 / 2000
    # Averaged with a group in which nothing passes: half of it.
    assert pass_at_k({0: 1, 1: 1}, 2000, 1024) == 512 / 2000


@pytest.mark.parametrize(
    ("n", "expected"), [(1, [1]), (2, [1, 2]), (3, [1, 2, 3]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8])]
)
def test_the_choices_of_k(n: int, expected: list[int]) -> None:
    """Every power of two up to n, and n itself, once each."""
    assert choices_of_k(n) == expected


def test_a_binary_term_has_pass_at_k() -> None:
    """Groups of 4 with 2 and 0 that pass, worked out by hand; best of n is told of ``final`` alone."""
    assert held_out_metrics(of_term("1 0 1 0", "0 0 0 0"), {"task": 1.0}, 4) == {
        # The best finals are 1 and 0.
        "val/reward/final/best_of_4": 0.5,
        # 2/4 and 0.
        "val/reward/task/pass_at_1": 0.25,
        # 5/6 and 0.
        "val/reward/task/pass_at_2": 5 / 12,
        # 1 and 0.
        "val/reward/task/pass_at_4": 0.5,
    }


def test_a_graded_term_has_best_of_n() -> None:
    """One value that is neither 0 nor 1, anywhere, makes a term graded over the whole validation."""
    assert held_out_metrics(of_term("1 0", "0 0.5", "1 1"), {"task": 1.0}, 2) == {
        # (1 + 0.5 + 1) / 3
        "val/reward/final/best_of_2": 2.5 / 3,
        "val/reward/task/best_of_2": 2.5 / 3,
    }


@pytest.mark.parametrize("value", [1.5, -1.0, 2.0, 0.9999999999999999, 5e-324])
def test_only_zero_and_one_are_binary(value: float) -> None:
    """A near miss is graded."""
    assert "val/reward/task/pass_at_1" not in held_out_metrics(of_term("1 0", f"0 {value!r}"), {"task": 1.0}, 2)


def test_a_negative_zero_is_a_zero() -> None:
    """The sign of a zero is no grade."""
    assert held_out_metrics(of_term("-0.0 1"), {"task": 1.0}, 2)["val/reward/task/pass_at_1"] == 0.5


def test_a_penalty_has_no_best() -> None:
    """Of a term with a weight of zero or less the largest value is not the best; a binary one still has pass@k."""
    group = [
        {"task": 1.0, "length": 3.0, "flag": 1.0, "final": 0.5},
        {"task": 0.25, "length": 9.0, "flag": 0.0, "final": -1},
    ]
    found = held_out_metrics(rows(group), {"task": 1.0, "length": -0.1, "flag": 0.0}, 2)
    assert found == {
        "val/reward/final/best_of_2": 0.5,
        "val/reward/task/best_of_2": 1.0,
        "val/reward/flag/pass_at_1": 0.5,
        "val/reward/flag/pass_at_2": 1.0,
    }


def test_a_dropped_group_is_in_no_mean() -> None:
    """A group that was not scored counts neither as zero nor at all, and does not make a term graded."""
    scored = [{"task": 1.0, "final": 1.0}, {"task": 0.0, "final": 0.0}]
    assert held_out_metrics(rows(None, scored, None), {"task": 1.0}, 2) == {
        "val/reward/final/best_of_2": 1.0,
        "val/reward/task/pass_at_1": 0.5,
        "val/reward/task/pass_at_2": 1.0,
    }


def test_nothing_scored_has_no_metrics() -> None:
    """What has no value is absent, not zero."""
    assert held_out_metrics(rows(None), {"task": 1.0}, 2) == {}
    assert held_out_metrics([], {"task": 1.0}, 2) == {}


def test_means_are_exact() -> None:
    """Many groups, in stretches: the mean of their bests is the exact one, rounded once."""
    # 10,000 groups of one with 0.1 each: their exact mean is 0.1; a running sum of floats would be off.
    many = of_term(*["0.1"] * 10_000)
    assert held_out_metrics(many, {"task": 1.0}, 1)["val/reward/final/best_of_1"] == 0.1


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=3, max_size=3), min_size=1, max_size=5))
def test_pass_at_n_is_best_of_n(groups: list[list[float]]) -> None:
    """Of a binary term, pass@n is the mean of the groups' largest values, whatever they are; pass@1 is its mean."""
    found = held_out_metrics(of_term(*[" ".join(map(str, group)) for group in groups]), {"task": 1.0}, 3)
    assert found["val/reward/task/pass_at_3"] == found["val/reward/final/best_of_3"]
    ones = sum(map(sum, groups))
    assert found["val/reward/task/pass_at_1"] == float(Fraction(int(ones), 3 * len(groups)))
