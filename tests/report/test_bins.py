# SPDX-License-Identifier: Apache-2.0
"""Bins that find their own width."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.report.bins import Bins
from strategies import finite_floats


def test_bins_hold_counts_means_and_spreads() -> None:
    """Keys 0 to 7 in four bins of two, each with the mean and the spread of its values."""
    bins = Bins(0)
    for key in range(8):
        bins.add(key, float(key * key), truncated=key == 7)
    # Pairs of squares: 0 1, 4 9, 16 25, 36 49; their spread is half their difference.
    assert [(low, high, each.count, each.truncated, each.mean, each.std) for low, high, each in bins.shown(4)] == [
        (0.0, 2.0, 2, 0, 0.5, 0.5),
        (2.0, 4.0, 2, 0, 6.5, 2.5),
        (4.0, 6.0, 2, 0, 20.5, 4.5),
        (6.0, 8.0, 2, 1, 42.5, 6.5),
    ]
    assert bins.count == 8


def test_an_empty_range_is_left_out() -> None:
    """Only bins that hold something are given."""
    bins = Bins(0)
    for key in (0, 100):
        bins.add(key, 0.0)
    assert [(low, high) for low, high, _ in bins.shown(128)] == [(0.0, 1.0), (100.0, 101.0)]


@given(st.lists(finite_floats, min_size=1, max_size=40), st.randoms(use_true_random=False))
def test_the_order_of_the_keys_does_not_matter(keys: list[float], random: object) -> None:
    """Bounds and counts are the same for any order, and every key lies in its bin."""
    shuffled = sorted(keys, key=lambda key: (hash(key), key))
    found = []
    for order in (keys, shuffled):
        bins = Bins(-20)
        for key in order:
            bins.add(key, 0.0)
        found.append([(low, high, each.count) for low, high, each in bins.shown(48)])
    assert found[0] == found[1]
    assert sum(count for _, _, count in found[0]) == len(keys)
    assert all(any(low <= key <= high for low, high, _ in found[0]) for key in keys)
    assert all(math.isfinite(low) and math.isfinite(high) for low, high, _ in found[0])
    assert len(found[0]) <= 48


@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(-50, 50)), min_size=1, max_size=700))
def test_merged_bins_keep_mean_and_spread(pairs: list[tuple[int, int]]) -> None:
    """However often bins were merged on the way, each has the mean and spread of all that lies in it."""
    bins = Bins(0)
    for key, value in pairs:
        bins.add(key, float(value))
    for low, high, each in bins.shown(6):
        inside = [float(value) for key, value in pairs if low <= key < high]
        assert each.count == len(inside)
        assert each.mean == pytest.approx(statistics.fmean(inside), abs=1e-9)
        assert each.std == pytest.approx(statistics.pstdev(inside), abs=1e-6)
