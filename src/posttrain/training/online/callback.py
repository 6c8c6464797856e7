# SPDX-License-Identifier: Apache-2.0
"""What happens between the trainer's steps: validation, metrics, checkpoints, each agreed on by all processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from transformers.trainer_callback import TrainerCallback
from typing_extensions import override

from posttrain.runs.config import RLConfig
from posttrain.runs.validation import is_due
from posttrain.training.online.checkpoints import Checkpoint, finish
from posttrain.training.online.held_out import HeldOut
from posttrain.training.online.prompts import Prompts
from posttrain.training.online.recorder import Recorder, named_metrics
from posttrain.training.online.watch import Watch

if TYPE_CHECKING:
    from posttrain.integrations.trl.trainer import Scored
    from posttrain.training.online.trainer import RunTrainer

__all__ = ["RunCallback"]

_FINAL: Final = "reward/final/mean"


@final
class RunCallback(TrainerCallback):
    """Ties a trainer to its run. `trainer` is set once there is one.

    Args:
        config: the run's config.
        recorder: writes, in the first process; None in the others.
        held_out: the validations; None: there are none.
        prompts: where the data stands.
        watch: is told how it goes.
    """

    trainer: RunTrainer

    def __init__(
        self,
        config: RLConfig,
        *,
        recorder: Recorder | None,
        held_out: HeldOut | None,
        prompts: Prompts,
        watch: Watch,
    ) -> None:
        self._config = config
        self._recorder = recorder
        self._held_out = held_out
        self._prompts = prompts
        self._watch = watch
        self.validated: dict[int, float | None] = {}
        """Step to the mean final reward of its validation."""

    def scored(self, scored: Scored) -> None:
        """A batch was scored; the trainer makes sure that a failure here is everybody's."""
        if self._recorder is not None and scored.mode == "train":
            self._recorder.scored(self.trainer.state.global_step + 1, self.trainer.batches - 1, scored)

    @override
    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Validate before the first step."""
        if state.global_step == 0 and self._held_out is not None:
            self._validate(0)

    @override
    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Validate where it is due."""
        step = state.global_step
        if self._held_out is not None and is_due(self._config, step, last=step == state.max_steps):
            self._validate(step)

    @override
    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        """Record the metrics of the step."""
        step, logs = state.global_step, logs or {}
        found = named_metrics(step, logs)
        if found:
            self._together("log", lambda recorder: recorder.metrics(step, found))
            self._watch.stepped(step, state.max_steps, found.get(f"train/{_FINAL}"))

    @override
    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Make the checkpoint that the trainer has just written count."""
        step, trainer = state.global_step, self.trainer
        # Every process writes a part of it.
        trainer.exchange.swap("checkpoint written", None)
        checkpoint = Checkpoint(
            step=step,
            stage_sha256=trainer.stage_identity.sha256,
            batches=trainer.batches,
            data=self._prompts.batch(trainer.batches - 1).end,
            processes=trainer.exchange.world_size,
        )

        def save(recorder: Recorder) -> None:
            recorder.save_state(step)
            finish(Path(args.output_dir), checkpoint, keep=self._config.grpo.keep_checkpoints)

        self._together("checkpoint", save)

    def _validate(self, step: int) -> None:
        held_out = self._held_out
        if held_out is None:
            return
        metrics = held_out.validate(self.trainer, step)
        self._together("validation recorded", lambda recorder: recorder.metrics(step, metrics))
        self.validated[step] = metrics.get(f"val/{_FINAL}")
        self._watch.validated(step, self.validated[step])

    def _together(self, what: str, write: Callable[[Recorder], None]) -> None:
        """Let the first process write, and fail everywhere where it fails."""
        exchange = self.trainer.exchange
        try:
            if self._recorder is not None:
                write(self._recorder)
        except Exception as error:
            exchange.fail(what, error)
            raise  # not reached: every process raises in the line above
        exchange.swap(what, None)
