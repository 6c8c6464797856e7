# SPDX-License-Identifier: Apache-2.0
"""`OPDRunTrainer`: the trainer of a run, with the loss of distillation and its divergence on held-out prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from transformers.trainer_callback import TrainerCallback

from posttrain.training.online.trainer import RunTrainer
from posttrain.training.opd.trainer import REVERSE_KL, StageOPDTrainer

__all__ = ["HELD_OUT_KL", "OPDRunTrainer"]

HELD_OUT_KL: Final = f"val/{REVERSE_KL}"
"""Metric: mean reverse KL over the whole vocabulary of a token, on what a held-out validation has sampled, in nats."""


class OPDRunTrainer(RunTrainer, StageOPDTrainer):
    """What a validation samples is also held against the teacher, and logged with the step of the validation.

    Prompts that fill up the share of the last processes, where prompts can't be shared out evenly, count as the others.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._kept: list[tuple[list[int], list[int]]] | None = None
        self._held_out: list[float] | None = None
        # After the run's own callback, which validates.
        self.add_callback(_LogHeldOut(self))

    def sample(
        self, prompts: Sequence[Any], *, num_generations: int, temperature: float, seed: int
    ) -> list[tuple[str, int, str | None]]:
        """As `RunTrainer.sample`, and the divergence on what comes is added up."""
        kept: list[tuple[list[int], list[int]]] = []
        self._kept = kept
        try:
            made = super().sample(prompts, num_generations=num_generations, temperature=temperature, seed=seed)
        finally:
            self._kept = None
        before = self._held_out or [0.0, 0.0]
        self._held_out = [old + new for old, new in zip(before, self._divergence_on(kept), strict=True)]
        return made

    def _generate_single_turn(self, prompt_ids: Any, *rest: Any, **named: Any) -> Any:
        generate: Any = super()._generate_single_turn
        made = generate(prompt_ids, *rest, **named)
        if self._kept is not None:
            self._kept += zip(prompt_ids, made[0], strict=True)
        return made

    def _divergence_on(self, samples: list[tuple[list[int], list[int]]]) -> tuple[float, int]:
        """Sum over the tokens of the samples, and their number."""
        model: Any = self.model
        was_training, size = model.training, self.args.per_device_train_batch_size
        model.eval()
        try:
            # As many at once as in training, which is known to fit; equally many parts in each process.
            parts = [self.summed_divergence(samples[at : at + size]) for at in range(0, len(samples), size)]
        finally:
            model.train(was_training)
        return sum(total for total, _ in parts), sum(count for _, count in parts)

    def log_held_out(self) -> None:
        """Log what has been added up, and begin anew; without a validation nothing."""
        own, self._held_out = self._held_out, None
        if own is None:
            return
        parts: list[list[float]] = self.exchange.swap(HELD_OUT_KL, [*own])
        total, count = (sum(column) for column in zip(*parts, strict=True))
        if not count:
            return
        # The handler takes this for the step's own log, which is still to come.
        wanted = self.control.should_log
        self.callback_handler.on_log(self.args, self.state, self.control, {HELD_OUT_KL: total / count})
        self.control.should_log = wanted


class _LogHeldOut(TrainerCallback):
    """Logs after each event at which a run may validate."""

    def __init__(self, trainer: OPDRunTrainer) -> None:
        self._trainer = trainer

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        """The validation before the first step."""
        self._trainer.log_held_out()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """The others."""
        self._trainer.log_held_out()
