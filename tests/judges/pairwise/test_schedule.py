# SPDX-License-Identifier: Apache-2.0
"""Who meets whom."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.judges.pairwise.schedule import schedule


def test_a_round_robin() -> None:
    """Everyone meets everyone once."""
    assert schedule(4, None, "seed") == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]


@given(st.integers(2, 30), st.integers(2, 12), st.text(max_size=3))
def test_a_tournament_is_fair_and_connected(size: int, opponents: int, seed: str) -> None:
    """Everyone meets the same number of others, that of the budget, and every two are linked by way of others."""
    pairs = schedule(size, opponents, seed)
    met = Counter(place for pair in pairs for place in pair)
    wanted = min(opponents, size - 1)
    odd = wanted % 2 and size % 2 and wanted < size - 1
    assert set(met.values()) == {wanted - 1 if odd else wanted}
    assert len(set(pairs)) == len(pairs)
    assert all(one < other for one, other in pairs)
    reached, grew = {0}, True
    while grew:
        more = {place for pair in pairs if reached & set(pair) for place in pair} - reached
        reached, grew = reached | more, bool(more)
    assert len(reached) == size


@pytest.mark.parametrize("opponents", [3, 4, 7])
def test_all_others_are_enough(opponents: int) -> None:
    """A budget that the group can't use up is a round robin."""
    assert schedule(4, opponents, "seed") == schedule(4, None, "seed")


def test_the_seed_decides() -> None:
    """The same seed draws the same pairs, another mostly others."""
    assert schedule(16, 2, "a") == schedule(16, 2, "a")
    assert len({tuple(schedule(16, 2, str(seed))) for seed in range(10)}) == 10
