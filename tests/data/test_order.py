# SPDX-License-Identifier: Apache-2.0
"""The order of an epoch: a permutation that seed and epoch fix, and that looks like a random one."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from math import factorial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.data.order import Order


@given(st.integers(1, 400), st.integers(), st.integers(0, 10**6))
def test_it_is_a_permutation(rows: int, seed: int, epoch: int) -> None:
    """Every number comes exactly once, for any count of rows, any seed and any epoch."""
    order = Order(rows, seed=seed, epoch=epoch)
    assert len(order) == rows
    assert sorted(order[at] for at in range(rows)) == list(range(rows))


def test_a_large_one_is_a_permutation() -> None:
    """The same for a count of rows that is no square: 100,003 is a prime."""
    order = Order(100_003, seed=1, epoch=2)
    assert len({order[at] for at in range(100_003)}) == 100_003


def test_seed_and_epoch_fix_it() -> None:
    """Equal settings give the equal order; another seed or epoch gives another one."""

    def drawn(seed: int, epoch: int) -> list[int]:
        order = Order(1000, seed=seed, epoch=epoch)
        return [order[at] for at in range(1000)]

    assert drawn(7, 3) == drawn(7, 3)
    # The seed and the epoch do not run into each other either: 1 and 12 are not 11 and 2.
    assert len({tuple(drawn(*each)) for each in [(7, 3), (7, 4), (8, 3), (3, 7), (-7, 3), (1, 12), (11, 2)]}) == 7


def test_it_stays_the_same_for_ever() -> None:
    """A run that was begun by an earlier version goes on in the same order: the network is written out anew here."""
    # Recomputed step by step from the description: 5 rows lie in a rectangle 3 wide and 2 high.
    import hashlib

    def mixed(value: int) -> int:
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            value = ((value ^ (value >> shift)) * factor) % 2**64
        return value ^ (value >> 31)

    stream = b"".join(hashlib.blake2b(f"7/3/{part}".encode(), digest_size=64).digest() for part in (0, 1))
    keys = [int.from_bytes(stream[8 * at : 8 * at + 8], "little") for at in range(16)]

    def once(cell: int) -> int:
        down, across = divmod(cell, 3)
        for at in range(8):
            across = (across + mixed(down ^ keys[2 * at])) % 3
            down = (down + mixed(across ^ keys[2 * at + 1])) % 2
        return 3 * down + across

    expected = []
    for position in range(5):
        cell = once(position)
        while cell == 5:
            cell = once(cell)
        expected.append(cell)
    order = Order(5, seed=7, epoch=3)
    assert [order[at] for at in range(5)] == expected


@pytest.mark.parametrize("rows", [2, 3, 4, 5])
def test_every_order_is_as_likely_as_any(rows: int) -> None:
    """Over 6,000 seeds the orders of a few rows are spread as evenly as those of fair draws."""
    seeds, orders = 6_000, factorial(rows)
    counts = Counter(tuple(map(Order(rows, seed=seed, epoch=0).__getitem__, range(rows))) for seed in range(seeds))
    expected = seeds / orders
    chi_square = sum((count - expected) ** 2 / expected for count in counts.values())
    chi_square += (orders - len(counts)) * expected
    # Mean orders - 1, standard deviation sqrt(2 * (orders - 1)): five of them beyond the mean.
    assert chi_square < orders - 1 + 5 * (2 * (orders - 1)) ** 0.5


def test_neighbours_are_torn_apart() -> None:
    """Rows that stand together are not drawn together: the steps of an order of 97 rows are spread evenly."""
    steps: Counter[int] = Counter()
    for seed in range(200):
        order = [Order(97, seed=seed, epoch=0)[at] for at in range(97)]
        steps.update((after - before) % 97 for before, after in pairwise(order))
    # 200 * 96 steps over the 96 that there are: 200 each, with a standard deviation of about 14.
    assert set(steps) == set(range(1, 97))
    assert all(abs(count - 200) < 6 * 14.2 for count in steps.values())


@pytest.mark.parametrize("position", [-1, 10])
def test_there_is_no_place_outside(position: int) -> None:
    """A place beyond the rows is an error, not a row."""
    with pytest.raises(IndexError, match="an order of 10 has no place"):
        Order(10, seed=0, epoch=0)[position]
