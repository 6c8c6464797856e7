# SPDX-License-Identifier: Apache-2.0
"""The stage's transaction over ranks: gather, evaluate, converge, then each rank writes its own trajectories."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import CancelledError
from typing import Any

from posttrain.errors import RewardConfigError, listing
from posttrain.execution.ranks.evaluator import RankEvaluator
from posttrain.execution.ranks.exchange import RankExchange
from posttrain.execution.ranks.gather import gather_with
from posttrain.execution.ranks.plain import Plain
from posttrain.rewards import RewardOutcome, RewardReport, RewardWorker, StageIdentity
from posttrain.schema import Trajectory

__all__ = ["compute_on_ranks", "score_on_ranks"]


def score_on_ranks(worker: RewardWorker, exchange: RankExchange, trajectories: Sequence[Trajectory]) -> RewardReport:
    """`RewardWorker.score` for a batch that is spread over ranks: whole on every rank, or on none.

    Every rank calls it with its own trajectories, groups may straddle ranks. Each writes into its own; the report is
    that of the whole batch and the same everywhere.

    Raises:
        RewardConfigError: the worker does not evaluate over this exchange, or the ranks' settings differ.
        RewardError: any rank failed, hung or died: the same error on every rank, which names the rank.
    """
    return compute_on_ranks(worker, exchange, trajectories)[0].report


def compute_on_ranks(
    worker: RewardWorker, exchange: RankExchange, trajectories: Sequence[Trajectory]
) -> tuple[RewardOutcome, list[Trajectory]]:
    """`score_on_ranks`, for callers that also want the outcome of all groups and the gathered batch."""
    batch: list[Trajectory] = []
    outcome: RewardOutcome | None = None
    committed = False
    commit_step = 0
    try:
        _check(worker, exchange)
        batch = _gathered(worker, exchange, trajectories)
        outcome = _computed(worker, exchange, batch)
        commit_step = exchange.steps + 1
        exchange.swap("commit", None)
        worker.commit(batch, outcome)
        committed = True
    except BaseException as error:
        if error is not exchange.raised:
            exchange.leave(error)
        if outcome is not None and not committed and exchange.agreed and exchange.steps == commit_step:
            # The others have agreed on this batch and write it; so does this rank before it goes.
            worker.commit(batch, outcome)
        raise
    return outcome, batch


def _check(worker: RewardWorker, exchange: RankExchange) -> None:
    evaluator = worker.stage.evaluator
    if not isinstance(evaluator, RankEvaluator) or evaluator.exchange is not exchange:
        exchange.fail(
            "gather",
            RewardConfigError(
                f"the worker evaluates with {type(evaluator).__name__}, expected a RankEvaluator over this very "
                "exchange: RewardWorker(..., evaluator=RankEvaluator(exchange))"
            ),
        )


def _gathered(worker: RewardWorker, exchange: RankExchange, trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    needs = sorted({need for spec in worker.stage.selection.specs for need in spec.needs})
    settings: dict[str, Plain] = {"namespace": worker.stage.namespace, "stage": worker.stage_identity.to_json()}
    batch, answers = gather_with(exchange, trajectories, needs, settings)
    if lines := [line for rank, theirs in enumerate(answers) for line in _differences(rank, theirs, answers[0])]:
        # Every rank reads the same answers, so every rank refuses.
        exchange.raised = RewardConfigError(f"the ranks' rewards are not set up alike:\n{listing(lines)}")
        raise exchange.raised
    return batch


def _differences(rank: int, theirs: Any, first: Any) -> list[str]:
    names = [
        f"namespace: rank 0 has {first['namespace']!r}, rank {rank} {theirs['namespace']!r}"
        for _ in range(theirs["namespace"] != first["namespace"])
    ]
    mine, others = StageIdentity.from_json(theirs["stage"]), StageIdentity.from_json(first["stage"])
    lines = mine.differences(others)
    return names + [
        line.replace(": recorded ", ": rank 0 has ", 1).replace(", now ", f", rank {rank} ") for line in lines
    ]


def _computed(worker: RewardWorker, exchange: RankExchange, batch: list[Trajectory]) -> RewardOutcome:
    before = exchange.steps
    try:
        return worker.compute(batch)
    except Exception as error:
        if error is exchange.raised or isinstance(error, CancelledError):
            raise
        # This rank alone may have failed, before or after the ranks met to evaluate: the others wait at the next step.
        exchange.fail("evaluate" if exchange.steps == before else "commit", error)
        raise  # not reached: every rank raises in the line above
