# SPDX-License-Identifier: Apache-2.0
"""One batch after the other on one rank, in step with the others: sample, score, update."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import final

import msgspec

from posttrain.data.trajectories import PromptBatch
from posttrain.errors import RewardContractError
from posttrain.execution.ranks import compute_on_ranks
from posttrain.rewards import RewardOutcome, RewardWorker
from posttrain.schema import Trajectory
from posttrain.training.nft.batch import makers, optimality_of, recorded, roll_out, samples_of
from posttrain.training.nft.job import Job
from posttrain.training.nft.policy import DiffusionPolicy, Sample, generator_of
from posttrain.training.nft.settings import Layout

__all__ = ["BatchResult", "Trainer"]


@final
class BatchResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a batch, the same on every rank but for the times."""

    step: int
    trajectories: list[Trajectory]
    """The whole batch as it is recorded."""
    outcome: RewardOutcome
    makers: dict[str, int]
    """Trajectory to the rank that made it."""
    optimality: dict[str, float]
    """Trajectory to r; those of dropped groups are missing."""
    metrics: dict[str, float]
    """The report's, and those of the update under ``train/nft/``."""


@final
class Trainer:
    """One rank's part of the training.

    Args:
        job: the others.
        layout: what of a batch is this rank's.
        policy: this rank's.
        worker: evaluates over the job's exchange.
    """

    def __init__(self, job: Job, layout: Layout, policy: DiffusionPolicy, worker: RewardWorker) -> None:
        self._job = job
        self._layout = layout
        self._policy = policy
        self._worker = worker
        self._seconds: dict[str, float] = {}

    def batch(self, step: int, prompts: PromptBatch) -> BatchResult:
        """Batch `step`, from 1.

        Raises:
            RewardError: any rank failed, hung or died: the same error on every rank, and no weight has changed.
        """
        policy, observations = self._policy, prompts.observations
        self._seconds = {}
        with self._timed("sample"), self._job.together("sample"):
            rollouts = roll_out(policy, self._layout, observations, step)
        with self._timed("score"):
            outcome, batch = compute_on_ranks(self._worker, self._job.exchange, rollouts.trajectories)
        self._job.same_everywhere("advantages", _digest(outcome))
        r = optimality_of(outcome, policy.settings.advantage_clip)
        samples = samples_of(rollouts, r)
        with self._timed("update"):
            updates = [self._update(step, number, samples, len(r)) for number in range(policy.settings.updates)]
            eta = policy.follow(step)
        losses, norms = zip(*updates, strict=True)
        numbers = {
            "loss": math.fsum(losses) / len(losses),
            "grad_norm": math.fsum(norms) / len(norms),
            "eta": eta,
            "optimality_spread": max(r.values()) - min(r.values()),
            **{f"{name}_seconds": taken for name, taken in self._seconds.items()},
        }
        return BatchResult(
            step=step,
            trajectories=recorded(batch, observations),
            outcome=outcome,
            makers=makers(self._layout, observations),
            optimality=r,
            metrics={**outcome.report.metrics(), **{f"train/nft/{name}": value for name, value in numbers.items()}},
        )

    def _update(self, step: int, number: int, samples: Sequence[Sample], total: int) -> tuple[float, float]:
        """One optimizer step; gives the loss over the whole batch, and the norm of its gradient."""
        job, policy = self._job, self._policy
        losses: list[float] = []
        with job.together("update"):
            for sample in samples:
                generator = generator_of("noise", policy.settings.seed, step, number, sample.trajectory_id)
                losses.append(policy.accumulate(sample, 1 / total, generator))
            gradients = policy.gradients()
            _refuse_infinite(samples, losses)
        # Everybody has come this far, so nobody waits for one who has not.
        job.add_up(gradients)
        sums = job.exchange.swap("loss", math.fsum(losses))
        # The same sum of gradients on every rank: the same step, or the same refusal.
        return math.fsum(sums) / total, policy.step()

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        begun = time.monotonic()
        yield
        self._seconds[name] = time.monotonic() - begun


def _refuse_infinite(samples: Sequence[Sample], losses: Sequence[float]) -> None:
    wrong = [each.trajectory_id for each, loss in zip(samples, losses, strict=True) if not math.isfinite(loss)]
    if wrong:
        raise RewardContractError(
            f"the loss of {', '.join(wrong)} is not finite: lower rl.nft.learning_rate, or rl.policy.dtype=float32"
        )


def _digest(outcome: RewardOutcome) -> str:
    return hashlib.sha256(msgspec.json.encode(outcome.groups)).hexdigest()
