# SPDX-License-Identifier: Apache-2.0
"""Every rank gets the whole batch: its own trajectories, and copies of everybody else's."""

from __future__ import annotations

from collections.abc import Sequence

from posttrain.execution.ranks.exchange import RankExchange
from posttrain.execution.ranks.plain import Plain
from posttrain.execution.ranks.records import Row, as_copy, as_rows
from posttrain.rewards.contract.spec import CANONICAL_INPUTS
from posttrain.schema import Trajectory

__all__ = ["gather_batch", "gather_with"]


def gather_batch(
    exchange: RankExchange, trajectories: Sequence[Trajectory], *, needs: Sequence[str] = CANONICAL_INPUTS
) -> list[Trajectory]:
    """The batch of all ranks, in rank order and inside a rank in its own order: the same sequence everywhere.

    At this rank's places stand its own objects. At the others' stand copies that hold what the reward stage reads:
    ids, the declared inputs, the completion, token count and finish verdict; a latent stays where it is, and the copy
    has a `RemoteLatent` in its place.

    Args:
        exchange: this rank's place among the ranks.
        trajectories: its own; may be none.
        needs: which canonical inputs travel; None stands in a copy for the others.

    Raises:
        RewardError: some rank's trajectories can't travel, or a rank did not come: the same error on every rank.
    """
    return gather_with(exchange, trajectories, needs, None)[0]


def gather_with(
    exchange: RankExchange, trajectories: Sequence[Trajectory], needs: Sequence[str], settings: Plain
) -> tuple[list[Trajectory], list[Plain]]:
    """The batch, and what each rank says of its settings."""
    own = list(trajectories)
    try:
        rows = as_rows(own, needs)
    except Exception as error:
        exchange.fail("gather", error)
        raise  # not reached: every rank raises in the line above
    answers = exchange.swap("gather", {"rows": list[Plain](rows), "settings": settings})
    batch: list[Trajectory] = []
    for rank, answer in enumerate(answers):
        theirs: list[Row] = answer["rows"]
        batch += own if rank == exchange.rank else [as_copy(row, rank) for row in theirs]
    return batch, [answer["settings"] for answer in answers]
