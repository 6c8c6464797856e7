# SPDX-License-Identifier: Apache-2.0
"""Who meets whom: everyone everyone, or each a few others."""

from __future__ import annotations

from itertools import combinations

from posttrain.judges.shuffle import shuffled

__all__ = ["schedule"]


def schedule(size: int, opponents: int | None, seed: str) -> list[tuple[int, int]]:
    """Pairs of places below `size`, the smaller first, in ascending order.

    With `opponents` the candidates stand in a ring, in an order that the seed decides, and each meets the nearest on
    both sides: `opponents` of them, or one less when both that and `size` are odd. Since it is a ring of at least two
    opponents each, everyone is compared with everyone by way of others.

    Args:
        size: candidates, at least 1.
        opponents: how many others each one meets, at least 2; None: all. All too when there are no more.
        seed: decides the ring.
    """
    if opponents is None or opponents >= size - 1:
        return list(combinations(range(size), 2))
    ring = shuffled(range(size), seed)
    distances = list(range(1, opponents // 2 + 1))
    if opponents % 2 and size % 2 == 0:
        distances.append(size // 2)
    pairs = ((ring[at], ring[(at + step) % size]) for step in distances for at in range(size))
    return sorted({(min(pair), max(pair)) for pair in pairs})
