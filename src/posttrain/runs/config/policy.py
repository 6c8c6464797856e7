# SPDX-License-Identifier: Apache-2.0
"""The section ``rl.policy``: the model that is trained. Keys may be set where nothing is trained."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, final

from pydantic import Field, ValidationInfo, field_validator

from posttrain.runs.config.kinds import Count, Expected, Seed, Text, one_of
from posttrain.runs.config.section import Section

__all__ = ["PolicyConfig"]

Dtype: TypeAlias = Literal["float32", "bfloat16"]
Device: TypeAlias = Literal["auto", "cpu"]
Steps: TypeAlias = Annotated[int, Field(ge=0), Expected("a whole number of at least 0", "whole")]
Positive: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False), Expected("a number above 0", "real")]


@final
class PolicyConfig(Section):
    """``rl.policy``: the model that is trained, and in what precision."""

    model: Text | None = None
    """``tiny`` (a small Llama over characters, made in the process), ``gguf:FILE``, a local folder, or a name on the
    Hugging Face hub."""
    revision: Text | None = None
    """Version of a model on the hub: a tag, a branch or a commit. Default: its main one."""
    dtype: Annotated[Dtype, one_of(Dtype)] = "float32"
    """Precision of the computation. The weights themselves and the optimizer stay in float32."""
    device: Annotated[Device, one_of(Device)] = "auto"
    """``auto``: the accelerator of this machine if it has one; ``cpu``: never."""
    seed: Seed = 0
    """Of weights that are made here (``tiny``, adapters) and of the warm start."""
    warm_start_steps: Steps = 0
    """Supervised steps on the training rows before anything else, so that a sparse reward is within reach."""
    lora_rank: Count | None = None
    """Rank of LoRA adapters on all linear layers, which alone are trained. Default: all weights are trained."""
    lora_alpha: Count | None = None
    """Scale of the adapters. Default: twice their rank."""

    @field_validator("lora_alpha")
    @classmethod
    def _with_rank(cls, alpha: int | None, info: ValidationInfo) -> int | None:
        rank = info.data.get("lora_rank")
        if alpha is not None and rank is None and "lora_rank" in info.data:
            raise ValueError("there are no adapters to scale: set rl.policy.lora_rank too, or leave this key out")
        return alpha
