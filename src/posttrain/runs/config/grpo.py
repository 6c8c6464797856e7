# SPDX-License-Identifier: Apache-2.0
"""The section ``rl.grpo``: how `posttrain grpo` trains. Keys may be set where something else is run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias, final

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from posttrain.errors import describe
from posttrain.frozen import freeze
from posttrain.runs.config.kinds import Count, Expected, Seconds, Seed, Switch, Text, sound_text
from posttrain.runs.config.policy import Positive
from posttrain.runs.config.section import Section

__all__ = ["GRPOConfigSection"]


def _setting(value: object) -> object:
    if isinstance(value, str):
        return sound_text(value)
    if isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise ValueError(f"expected a number, a text, true or false, got {describe(value)}")


def _frozen(settings: Mapping[str, Any]) -> Any:
    return freeze(dict(settings))


NotNegative: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False), Expected("a number of at least 0", "real")]
Others: TypeAlias = Annotated[
    Mapping[Text, Annotated[Any, AfterValidator(_setting)]],
    AfterValidator(_frozen),
    Expected("a number, a text, true or false", "text"),
]


@final
class GRPOConfigSection(Section):
    """``rl.grpo``: steps, batch, sampling and loss of a GRPO run."""

    steps: Count = 100
    """Optimizer steps of the whole run, at least 1; a multiple of `num_iterations`."""
    prompts_per_step: Count = 8
    """Groups that are sampled for a step, at least 1, over all processes; each has ``rl.group_size`` completions."""
    completions_per_device: Count | None = None
    """Completions in one pass forward and backward of a process; it divides what a process has of a step. Default:
    all of that."""
    learning_rate: Positive = 1e-6
    """Of AdamW; constant unless ``rl.grpo.trl.lr_scheduler_type`` says otherwise."""
    max_completion_length: Count = 256
    """Token budget of a completion; one that fills it without an end has the verdict ``length``."""
    max_prompt_length: Count | None = None
    """Most tokens of a prompt; a longer one is refused by name, never cut. Default: no bound."""
    temperature: Positive = 1.0
    """Of sampling for training."""
    beta: NotNegative = 0.0
    """Weight of the KL divergence to the policy as it was at the start; 0 keeps no copy of that."""
    num_iterations: Count = 1
    """Optimizer steps on each sampled batch."""
    seed: Seed = 0
    """Of sampling, and of whatever else the trainer draws."""
    save_steps: Count | None = None
    """Steps between two checkpoints, a multiple of `num_iterations`. Default: one checkpoint, at the end."""
    keep_checkpoints: Count = 2
    """How many checkpoints are kept, the latest ones."""
    ranks_timeout_s: Seconds = 600.0
    """Seconds that a process waits for the others: longer than sampling, scoring or a validation takes."""
    use_vllm: Switch = False
    """Whether vLLM samples; how, ``rl.grpo.trl.vllm_...`` say."""
    trl: Others = Field(default={}, validate_default=True)
    """Other settings of TRL's ``GRPOConfig`` by their names there. Those that a key here decides are refused."""

    @field_validator("num_iterations")
    @classmethod
    def _divides_steps(cls, iterations: int, info: ValidationInfo) -> int:
        steps = info.data.get("steps")
        if steps is not None and steps % iterations:
            raise ValueError(
                f"rl.grpo.steps={steps} is no multiple of num_iterations={iterations}: the last batch would be left "
                "half used"
            )
        return iterations

    @field_validator("save_steps")
    @classmethod
    def _at_a_new_batch(cls, save_steps: int | None, info: ValidationInfo) -> int | None:
        iterations = info.data.get("num_iterations")
        if save_steps is not None and iterations is not None and save_steps % iterations:
            raise ValueError(
                f"save_steps={save_steps} is no multiple of rl.grpo.num_iterations={iterations}: a checkpoint between "
                "two steps on one batch could not be resumed from"
            )
        return save_steps
