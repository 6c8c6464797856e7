# SPDX-License-Identifier: Apache-2.0
"""Held-out validation in a run: every process samples its share, the first one has it scored, and all hear of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from posttrain.data import Env, group_trajectories
from posttrain.execution.ranks import gather_batch
from posttrain.runs.checks.rows import held_out_rows
from posttrain.runs.config import RLConfig
from posttrain.runs.validation import HeldOutValidation, validation_folder
from posttrain.schema import Observation, Trajectory

if TYPE_CHECKING:
    from posttrain.training.online.trainer import RunTrainer

__all__ = ["HeldOut"]


@final
class HeldOut:
    """The validations of one run, in one process of it.

    Args:
        config: the run's config, with ``rl.validation.path``.
        needs: the inputs that the validation's providers declare.
        validation: scores, in the first process; None in the others.
        run: folder of the run.

    Raises:
        RewardError: the rows can't be had, or lack what is needed.
    """

    def __init__(
        self, config: RLConfig, *, needs: Sequence[str], validation: HeldOutValidation | None, run: Path
    ) -> None:
        self._settings = config.validation
        self._validation = validation
        self._run = run
        env = Env(held_out_rows(config), needs=needs, shuffle=False, name="held-out")
        (batch,) = env.batches(len(env), self._settings.n_generation, epochs=1)
        self._observations = batch.observations

    def validate(self, trainer: RunTrainer, step: int) -> Mapping[str, float]:
        """Sample, score and keep a validation; its metrics, in every process.

        Raises:
            RewardError: some process failed, hung or died: the same error in each.
        """
        exchange = trainer.exchange
        try:
            own = self._sampled(trainer)
        except Exception as error:
            exchange.fail("validation", error)
            raise  # not reached: every process raises in the line above
        batch = gather_batch(exchange, own)
        try:
            metrics: dict[str, Any] = self._scored(batch, step)
        except Exception as error:
            exchange.fail("validation scored", error)
            raise  # not reached: every process raises in the line above
        answers: list[Any] = list(exchange.swap("validation scored", metrics))
        return dict(answers[0])

    def _scored(self, batch: Sequence[Trajectory], step: int) -> dict[str, Any]:
        if self._validation is None:
            return {}
        pending = self._validation.begin(batch, step, validation_folder(self._run, step))
        return dict(pending.complete().metrics)

    def _sampled(self, trainer: RunTrainer) -> list[Trajectory]:
        size, exchange = self._settings.n_generation, trainer.exchange
        share = -(-len(self._observations) // exchange.world_size)
        own = list(self._observations[exchange.rank * share : (exchange.rank + 1) * share])
        # Processes sample in step, so each makes as many calls of the same size; what is filled in is thrown away.
        filled = own + [self._observations[-1]] * (share - len(own))
        groups = max(1, self._settings.batch_size // size)
        found: list[Trajectory] = []
        for start in range(0, share, groups):
            found += self._groups(trainer, filled[start : start + groups], start)
        return found[: len(own) * size]

    def _groups(self, trainer: RunTrainer, observations: Sequence[Observation], start: int) -> list[Trajectory]:
        size = self._settings.n_generation
        sampled = trainer.sample(
            [each.prompt for each in observations],
            num_generations=size,
            temperature=self._settings.sampling_temperature,
            seed=self._settings.seed + 1_000_003 * start,
        )
        made: list[Trajectory] = []
        for place, observation in enumerate(observations):
            own = sampled[place * size : (place + 1) * size]
            infos = [{"finish_reason": verdict, "completion_token_count": count} for _, count, verdict in own]
            made += group_trajectories(observation, [text for text, _, _ in own], policy_info=infos)
        return made
