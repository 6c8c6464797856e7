# SPDX-License-Identifier: Apache-2.0
"""Which candidates of a group changed places between two rankings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import final

import msgspec

__all__ = ["RankChange", "rank_change"]


@final
class RankChange(msgspec.Struct, frozen=True):
    """Two rankings of one group beside each other."""

    ordered: int
    """Pairs of candidates that neither ranking ties."""
    flips: int
    """Those of them that the two rank in opposite orders."""
    another_top: bool
    """Whether the best candidates, ties included, of one ranking and of the other have none in common."""


def rank_change(first: Sequence[float], second: Sequence[float]) -> RankChange:
    """Compare two rankings of the same candidates, each [group_size] and at least one.

    A pair that is tied in either ranking is neither ordered nor flipped. Counting takes n log n comparisons
    (W. R. Knight, "A Computer Method for Calculating Kendall's Tau with Ungrouped Data", 1966).
    """
    size = len(first)
    pairs = sorted(zip(first, second, strict=True))
    tied = _tied(first) + _tied(second) - _tied(pairs)
    highest, other = max(first), max(second)
    best = {place for place, value in enumerate(first) if value == highest}
    others = {place for place, value in enumerate(second) if value == other}
    return RankChange(
        ordered=size * (size - 1) // 2 - tied,
        flips=_inversions([value for _, value in pairs]),
        another_top=best.isdisjoint(others),
    )


def _tied(values: Sequence[object]) -> int:
    return sum(times * (times - 1) // 2 for times in Counter(values).values())


def _inversions(values: list[float]) -> int:
    """Pairs in which the earlier value is the larger one."""
    return _sorted_with_inversions(values)[1]


def _sorted_with_inversions(values: list[float]) -> tuple[list[float], int]:
    if len(values) < 2:
        return values, 0
    middle = len(values) // 2
    left, before = _sorted_with_inversions(values[:middle])
    right, behind = _sorted_with_inversions(values[middle:])
    merged: list[float] = []
    count, at = before + behind, 0
    for value in right:
        while at < len(left) and left[at] <= value:
            merged.append(left[at])
            at += 1
        count += len(left) - at
        merged.append(value)
    return merged + left[at:], count
