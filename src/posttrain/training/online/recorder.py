# SPDX-License-Identifier: Apache-2.0
"""What a run writes down on the way, in its first process: candidates, metrics, the reward state."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, final

from posttrain.errors import RewardContractError
from posttrain.rewards import RewardReport, StageIdentity
from posttrain.runs.config import RunConfig
from posttrain.runs.directory import RunDirectory
from posttrain.runs.sinks import FanOut, MetricSink, MlflowSink, TensorBoardSink, WandbSink
from posttrain.schema import Observation, Trajectory
from posttrain.training.online.prompts import Prompts

if TYPE_CHECKING:
    from posttrain.integrations.trl.trainer import Scored

__all__ = ["Recorder", "named_metrics"]

_OURS: Final = ("train/", "val/")
_SUMMARY: Final = "train_runtime"
# The trainer's epoch is the whole run, as long as it happens to be.
_LEFT_OUT: Final = frozenset({"epoch"})


@final
class Recorder:
    """Writes to the run's folder and its other sinks.

    Args:
        run: the run, open for writing.
        settings: ``rl.run``: the other sinks.
        prompts: what was sampled for.
        identity: of the stage.
        begins_at: the step that the run goes on from; None: it is new.
    """

    def __init__(
        self,
        run: RunDirectory,
        settings: RunConfig,
        *,
        prompts: Prompts,
        identity: StageIdentity,
        begins_at: int | None,
    ) -> None:
        self.run = run
        self._prompts = prompts
        self._identity = identity
        self._sinks = FanOut(run.metrics, *_others(run, settings, begins_at))
        self._report: RewardReport | None = None

    def scored(self, step: int, batch_number: int, scored: Scored) -> None:
        """Record the candidates of a step."""
        self._report = scored.outcome.report
        drawn = self._prompts.batch(batch_number).observations
        size = len(scored.batch) // len(drawn)
        own = {id(each) for each in scored.own}
        # Copies of what other processes sampled have the declared inputs only; the rows are the same in all of them.
        whole = [
            each if id(each) in own else _with_inputs(each, drawn[place // size])
            for place, each in enumerate(scored.batch)
        ]
        self.run.record_step(step, whole, scored.outcome)

    def metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        """Record metrics of a step."""
        self._sinks.write(step, metrics)

    def save_state(self, step: int) -> None:
        """Record the reward state that goes with the checkpoint of a step."""
        if self._report is None:
            raise RewardContractError(f"step {step} is to be saved, and nothing was scored before it")
        self.run.save_state(step, self._identity, self._report)

    def close(self) -> None:
        """Let go of the sinks and of the run."""
        try:
            self._sinks.close()
        finally:
            self.run.close()


def named_metrics(step: int, logs: Mapping[str, Any]) -> dict[str, float]:
    """What the trainer logs, under the names of the record: the stage's own as they are, others under ``trainer/``.

    A value that is not there or not finite has no place in the record and is left out, but for those that say that
    the policy is ruined.

    Raises:
        RewardContractError: the loss or the gradient's norm is not finite.
    """
    if _SUMMARY in logs:
        # A line about the whole training; a run that is resumed would have several.
        return {}
    for name in ("loss", "grad_norm"):
        value = logs.get(name)
        if value is not None and not math.isfinite(value):
            raise RewardContractError(
                f"the {name} of step {step} is {value}: the policy is ruined; go on from the last checkpoint with a "
                "smaller rl.grpo.learning_rate"
            )
    return {
        name if name.startswith(_OURS) else f"trainer/{name}": float(value)
        for name, value in logs.items()
        if name not in _LEFT_OUT and isinstance(value, (int, float)) and math.isfinite(value)
    }


def _with_inputs(copy: Trajectory, drawn: Observation) -> Trajectory:
    obs = Observation(id=copy.group_id, prompt=drawn.prompt, reference=drawn.reference, row_id=drawn.row_id)
    return Trajectory(
        trajectory_id=copy.trajectory_id,
        group_id=copy.group_id,
        obs=obs,
        completion=copy.completion,
        policy_info=copy.policy_info,
        reward=copy.reward,
        advantage=copy.advantage,
    )


def _others(run: RunDirectory, settings: RunConfig, begins_at: int | None) -> list[MetricSink]:
    found: list[MetricSink] = []
    if settings.tensorboard:
        found.append(TensorBoardSink(run.path / "tensorboard", begins_at=begins_at))
    if settings.wandb_project is not None:
        found.append(WandbSink.begin(project=settings.wandb_project, name=run.path.name, folder=run.path))
    if settings.mlflow_experiment is not None:
        found.append(MlflowSink.begin(experiment=settings.mlflow_experiment, name=run.path.name))
    return found
