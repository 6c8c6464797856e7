# SPDX-License-Identifier: Apache-2.0
"""The choice of groups that the table holds."""

from __future__ import annotations

import random
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from posttrain.report.sample import Sample


def _kept(sizes: list[int], room: int, order: list[int], always: frozenset[str] = frozenset()) -> set[int]:
    sample: Sample[int] = Sample(room, always)
    for place in order:
        sample.offer(1, f"group-{place}", sizes[place], partial(int, place))
    return set(sample.kept())


def test_what_fits_is_kept_whole_and_in_order() -> None:
    """Without need, no group is left out."""
    sample: Sample[int] = Sample(10)
    for place in range(5):
        sample.offer(1, f"group-{place}", 2, partial(int, place))
    assert sample.kept() == [0, 1, 2, 3, 4]
    assert not sample.is_partial


@given(st.lists(st.integers(1, 9), min_size=1, max_size=60), st.integers(1, 80), st.randoms(use_true_random=False))
def test_the_choice_hangs_on_the_names_alone(sizes: list[int], room: int, shuffler: random.Random) -> None:
    """Any order gives the same groups, which fit, and no more groups of the first that were left out would."""
    order = list(range(len(sizes)))
    kept = _kept(sizes, room, order)
    shuffler.shuffle(order)
    assert _kept(sizes, room, order) == kept
    assert sum(sizes[place] for place in kept) <= room


def test_every_group_has_the_same_chance() -> None:
    """Of 4,000 groups with room for a quarter, each eighth of the file gets about its share."""
    kept = _kept([8] * 4000, 8000, list(range(4000)))
    assert len(kept) == 1000
    counts = [sum(place // 500 == part for place in kept) for part in range(8)]
    # The standard deviation of such a count is below sqrt(500 * 0.25 * 0.75) = 9.7; five of them are 48.
    assert all(abs(count - 125) < 48 for count in counts)


def test_nothing_is_made_of_a_group_that_is_not_kept() -> None:
    """What a group costs is paid for the kept ones, and a few more at the beginning."""
    made: list[int] = []
    sample: Sample[None] = Sample(100)
    for place in range(10_000):
        sample.offer(1, str(place), 10, partial(made.append, place))
    # Ten of n groups are the smallest of the first n with chance 10 / n each: 10 (1 + ln 1000), about 79.
    assert len(made) < 200
    assert sample.offered == 10_000
    assert sample.is_partial


def test_some_groups_are_kept_whatever_happens() -> None:
    """The groups that somebody will look for are there, even beyond the room."""
    assert {7, 3} <= _kept([5] * 50, 12, list(range(50)), frozenset({"group-7", "group-3"}))
