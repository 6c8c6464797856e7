# SPDX-License-Identifier: Apache-2.0
"""`RankEvaluator`: each rank evaluates its share, and every rank gets all of it or the same error."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import CancelledError
from copy import copy
from dataclasses import replace
from typing import final

from posttrain.errors import RewardContractError
from posttrain.execution.ranks.exchange import RankExchange
from posttrain.execution.ranks.plain import Plain, to_bytes
from posttrain.execution.ranks.shards import Part, dealt_whole, from_plain, held_here, joined, to_plain
from posttrain.rewards import RewardWorker
from posttrain.rewards.contract.request import LatentCandidate
from posttrain.rewards.stage.bind import BoundGroup
from posttrain.rewards.stage.evaluator import GroupEvaluation, GroupEvaluator, InProcessEvaluator
from posttrain.rewards.stage.prepare import Selection

__all__ = ["RankEvaluator", "over_ranks"]


@final
class RankEvaluator:
    """Deals a batch that every rank holds out over the ranks, and brings the results together on each of them.

    Ordinary providers get whole groups, dealt by index. Providers whose spec says `rank_local` get the candidates whose
    latent is on the rank. Results are those of one process, bit for bit.

    Args:
        exchange: this rank's place among the ranks.
        inner: evaluates this rank's share; None: in this process.

    Example:
        ::

            exchange = torch_exchange(timeout_s=300)
            with RewardWorker(catalog=path, reward="rubric", group_size=8, evaluator=RankEvaluator(exchange)) as worker:
                report = score_on_ranks(worker, exchange, trajectories_of_this_rank)
    """

    def __init__(self, exchange: RankExchange, inner: GroupEvaluator | None = None) -> None:
        self.exchange = exchange
        """Where the ranks meet."""
        self.inner = InProcessEvaluator() if inner is None else inner
        """Evaluates this rank's share."""

    def prepare(self, selection: Selection, groups_in_flight: int | None) -> None:
        """See `GroupEvaluator.prepare`."""
        self.inner.prepare(selection, groups_in_flight)

    @property
    def groups_in_flight(self) -> int:
        """See `GroupEvaluator.groups_in_flight`: those of all ranks."""
        return self.inner.groups_in_flight * self.exchange.world_size

    def open(self) -> None:
        """See `GroupEvaluator.open`."""
        self.inner.open()

    def evaluate(self, groups: Sequence[BoundGroup], *, collect_unavailable: bool) -> list[GroupEvaluation]:
        """See `GroupEvaluator.evaluate`. Every rank calls it with the same groups.

        Raises:
            RewardError: the same on every rank, whichever of them failed; it names the rank.
        """
        exchange = self.exchange
        own = held_here(groups) if _are_latents(groups) else dealt_whole(groups, exchange.rank, exchange.world_size)
        try:
            shares = [group for _, group in own]
            found = self.inner.evaluate(shares, collect_unavailable=collect_unavailable) if shares else []
            parts: list[Part] = [(index, each) for (index, _), each in zip(own, found, strict=True)]
            digest, payload = _digest(groups), to_plain(parts)
        except BaseException as error:
            # A cancellation is no failure of the rewards: it goes through, as an interrupt does.
            if isinstance(error, Exception) and not isinstance(error, CancelledError):
                exchange.fail("evaluate", error)
            exchange.leave(error)
            raise
        answers = exchange.swap("evaluate", [digest, payload])
        if others := [rank for rank, (theirs, _) in enumerate(answers) if theirs != digest]:
            raise RewardContractError(
                f"rank {exchange.rank} holds another batch than ranks {others}: give every rank the same groups"
            )
        return joined(groups, [from_plain(parts) for _, parts in answers])

    def close(self) -> None:
        """See `GroupEvaluator.close`."""
        self.inner.close()


def over_ranks(worker: RewardWorker, exchange: RankExchange) -> RewardWorker:
    """The same worker, its evaluator at work on this rank's share only; one that does so already is given back.

    The two share their providers: open and close one of them.
    """
    if isinstance(worker.stage.evaluator, RankEvaluator):
        return worker
    spread = copy(worker)
    spread.stage = replace(worker.stage, evaluator=RankEvaluator(exchange, worker.stage.evaluator))
    return spread


def _are_latents(groups: Sequence[BoundGroup]) -> bool:
    return any(isinstance(each, LatentCandidate) for group in groups[:1] for each in group.requests[0].candidates)


def _digest(groups: Sequence[BoundGroup]) -> str:
    names: list[Plain] = [(group.group_id, group.trajectory_ids) for group in groups]
    return hashlib.sha256(to_bytes(names)).hexdigest()
