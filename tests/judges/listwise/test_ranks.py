# SPDX-License-Identifier: Apache-2.0
"""Ranks are a ranking or are refused."""

from __future__ import annotations

import pytest

from posttrain.judges.endpoint import JudgeReplyError
from posttrain.judges.listwise.ranks import checked_ranks, rank_scores


def named(*ranks: int) -> dict[str, int]:
    """Ranks under labels."""
    return {f"r{at}": rank for at, rank in enumerate(ranks)}


@pytest.mark.parametrize("ranks", [(2, 1, 3), (1,)])
@pytest.mark.parametrize("ties", [True, False])
def test_a_ranking_without_ties(ranks: tuple[int, ...], ties: bool) -> None:
    """It is one whether ties are allowed or not."""
    assert checked_ranks(named(*ranks), ties=ties) == named(*ranks)


@pytest.mark.parametrize("ranks", [(1, 1, 2), (1, 1, 3), (1, 2, 2), (1, 1, 1), (3, 1, 1), (2, 1, 2, 4), (2, 1, 2, 3)])
def test_ties_where_they_are_allowed(ranks: tuple[int, ...]) -> None:
    """Both ways to count on behind a tie are accepted; where they are not allowed, none is."""
    assert checked_ranks(named(*ranks), ties=True) == named(*ranks)
    with pytest.raises(JudgeReplyError, match=r"off_scale: each rank from 1 to [34] is due exactly once"):
        checked_ranks(named(*ranks), ties=False)


@pytest.mark.parametrize("ranks", [(2, 2, 3), (1, 3, 3), (1, 1, 4, 4), (2, 3, 3)])
def test_what_is_no_ranking_is_refused(ranks: tuple[int, ...]) -> None:
    """Ranks that nobody has, before or between."""
    with pytest.raises(JudgeReplyError, match="off_scale: equal ranks are either 1, 1, 2 or 1, 1, 3"):
        checked_ranks(named(*ranks), ties=True)


@pytest.mark.parametrize(
    ("ranks", "scores"),
    [
        ((1, 2, 3), (1.0, 0.5, 0.0)),
        ((2, 1), (0.0, 1.0)),
        # The two on top have one below and one beside: 1.5 of 2.
        ((1, 1, 2), (0.75, 0.75, 0.0)),
        ((1, 1, 3), (0.75, 0.75, 0.0)),
        ((1, 1, 1, 1), (0.5, 0.5, 0.5, 0.5)),
    ],
)
def test_scores_of_ranks(ranks: tuple[int, ...], scores: tuple[float, ...]) -> None:
    """The share of the others that stand below, those beside counting half."""
    assert tuple(rank_scores(named(*ranks)).values()) == scores
