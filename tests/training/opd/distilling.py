# SPDX-License-Identifier: Apache-2.0
"""A distilling trainer over tiny models, with scripted samples, whose batch in the loss can be taken out."""

from __future__ import annotations

from typing import Any

import torch
from trl.trainer.grpo_config import GRPOConfig

from integrations.spy import SpyTrainer
from integrations.tiny import tiny_model, tiny_tokenizer
from posttrain.rewards import RewardGroupRequest, RewardWorker
from posttrain.training.opd import StageOPDTrainer

__all__ = ["DistillingSpy", "Gradient", "spread", "tiny_teacher"]

Gradient = dict[str, torch.Tensor]


def spread(request: RewardGroupRequest) -> list[float]:
    """A reward that differs between candidates."""
    return [sum(map(ord, each.completion)) % 97 / 7 + place for place, each in enumerate(request.candidates)]


def tiny_teacher(*, seed: int = 1) -> Any:
    """Another random model than the student, with sharper opinions."""
    teacher = tiny_model(tiny_tokenizer(), seed=seed)
    with torch.no_grad():
        teacher.get_output_embeddings().weight.mul_(20.0)
    return teacher


class DistillingSpy(SpyTrainer, StageOPDTrainer):
    """Keeps the inputs of each `compute_loss`, and gives gradients at the present weights."""

    def __init__(self, args: GRPOConfig, worker: RewardWorker, **settings: Any) -> None:
        self.inputs: list[dict[str, Any]] = []
        given = {"teacher": tiny_teacher(), "ends": (0, 1, 3, 4, 6), **settings}
        super().__init__(args, worker, **given)

    def compute_loss(self, model: Any, inputs: Any, *rest: Any, **named: Any) -> Any:
        """Keep the inputs, then go on."""
        self.inputs.append(dict(inputs))
        return super().compute_loss(model, inputs, *rest, **named)

    def gradient(self, inputs: dict[str, Any]) -> Gradient:
        """Of the whole loss, by parameter."""
        return self._gradient_of(self.loss(inputs))

    def loss(self, inputs: dict[str, Any]) -> torch.Tensor:
        """At the present weights."""
        return self._compute_loss(self.model, inputs)

    def policy_gradient(self, inputs: dict[str, Any]) -> Gradient:
        """Of the loss that the stage's trainer has by itself, through a pass of its own."""
        policy_loss: Any = super(StageOPDTrainer, self)._compute_loss
        return self._gradient_of(policy_loss(self.model, inputs))

    def _gradient_of(self, loss: torch.Tensor) -> Gradient:
        model: Any = self.model
        named: dict[str, torch.Tensor] = dict(model.named_parameters())
        return dict(zip(named, torch.autograd.grad(loss, list(named.values())), strict=True))
