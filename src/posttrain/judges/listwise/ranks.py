# SPDX-License-Identifier: Apache-2.0
"""Ranks that a judge gave, checked, and what they are worth."""

from __future__ import annotations

from collections.abc import Mapping

from posttrain.judges.endpoint import JudgeReplyError

__all__ = ["checked_ranks", "rank_scores"]


def checked_ranks(ranks: Mapping[str, int], *, ties: bool) -> Mapping[str, int]:
    """The ranks themselves, when they are a ranking.

    Without ties: each rank from 1 to their number exactly once. With ties: either no rank is left out (1, 1, 2), or as
    many as share the rank before (1, 1, 3).

    Raises:
        JudgeReplyError: they are none.
    """
    given = sorted(ranks.values())
    if not ties and given != list(range(1, len(given) + 1)):
        raise JudgeReplyError("off_scale", f"each rank from 1 to {len(given)} is due exactly once, got {_shown(given)}")
    if ties and given not in (_dense(given), _competition(given)):
        raise JudgeReplyError("off_scale", f"equal ranks are either 1, 1, 2 or 1, 1, 3, got {_shown(given)}")
    return ranks


def rank_scores(ranks: Mapping[str, int]) -> dict[str, float]:
    """Score in [0, 1] of each: 1 for the best, 0 for the worst of at least two, 0.5 on average.

    It is the share of the others that stand below; who shares a rank counts as half below.
    """
    others = len(ranks) - 1
    given = list(ranks.values())
    return {
        label: (sum(each > rank for each in given) + (given.count(rank) - 1) / 2) / others
        for label, rank in ranks.items()
    }


def _dense(given: list[int]) -> list[int]:
    places = {rank: at for at, rank in enumerate(dict.fromkeys(given), 1)}
    return [places[rank] for rank in given]


def _competition(given: list[int]) -> list[int]:
    return [given.index(rank) + 1 for rank in given]


def _shown(given: list[int]) -> str:
    return ", ".join(map(str, given))
