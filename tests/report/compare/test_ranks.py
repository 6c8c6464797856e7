# SPDX-License-Identifier: Apache-2.0
"""Rank flips inside a group, by hand and against looking at every pair."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.report.compare.ranks import RankChange, rank_change


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([1.0], [5.0], RankChange(0, 0, another_top=False)),
        ([1.0, 2.0], [2.0, 1.0], RankChange(1, 1, another_top=True)),
        # A tie on either side is no order, so nothing can flip.
        ([1.0, 1.0], [2.0, 1.0], RankChange(0, 0, another_top=False)),
        ([1.0, 2.0], [1.0, 1.0], RankChange(0, 0, another_top=False)),
        # Three against its reverse: all three pairs.
        ([1.0, 2.0, 3.0], [3.0, 2.0, 1.0], RankChange(3, 3, another_top=True)),
        # Best of A: places 0 and 1; best of B: place 1. One in common.
        ([1.0, 1.0, 0.0], [0.0, 1.0, 0.5], RankChange(2, 1, another_top=False)),
    ],
)
def test_two_rankings_by_hand(first: list[float], second: list[float], expected: RankChange) -> None:
    """Pairs that neither side ties, those in opposite orders, and whether the best have none in common."""
    assert rank_change(first, second) == expected


_values = st.sampled_from([-1.0, 0.0, -0.0, 0.5, 1.0, 2.0])


@given(st.lists(st.tuples(_values, _values), min_size=1, max_size=30))
def test_counting_equals_looking_at_every_pair(pairs: list[tuple[float, float]]) -> None:
    """The quick count is the plain one, ties included."""
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    ordered = [(a, b) for a, b in combinations(pairs, 2) if a[0] != b[0] and a[1] != b[1]]
    found = rank_change(first, second)
    assert found.ordered == len(ordered)
    assert found.flips == sum((a[0] < b[0]) != (a[1] < b[1]) for a, b in ordered)
    # Turned round, the same pairs are counted.
    turned = rank_change(second, first)
    assert (turned.ordered, turned.flips, turned.another_top) == (found.ordered, found.flips, found.another_top)


def test_a_large_group_is_counted_quickly() -> None:
    """Sixty thousand candidates in reverse: every pair flips, and nobody looks at two billion of them."""
    size = 60_000
    values = [float(place) for place in range(size)]
    assert rank_change(values, values[::-1]).flips == size * (size - 1) // 2
