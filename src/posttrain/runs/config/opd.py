# SPDX-License-Identifier: Apache-2.0
"""The section ``rl.opd``: the teacher of `posttrain opd`, and how it is followed. The rest is ``rl.grpo``'s."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, final

from posttrain.runs.config.grpo import NotNegative
from posttrain.runs.config.kinds import Seed, Text, one_of
from posttrain.runs.config.policy import Dtype, Steps
from posttrain.runs.config.section import Section

__all__ = ["OPDConfig"]

Divergence: TypeAlias = Literal["full", "sampled"]


@final
class OPDConfig(Section):
    """``rl.opd``: the frozen teacher that the policy is distilled from."""

    teacher: Text | None = None
    """What ``rl.policy.model`` may be: ``tiny``, ``gguf:FILE``, a local folder, or a name on the Hugging Face hub. It
    has the vocabulary of the policy."""
    teacher_revision: Text | None = None
    """Version of a teacher on the hub: a tag, a branch or a commit. Default: its main one."""
    teacher_dtype: Annotated[Dtype, one_of(Dtype)] = "float32"
    """Of the teacher's weights, and of its computation unless ``rl.policy.dtype`` is lower."""
    teacher_seed: Seed = 0
    """Of a teacher that is made here (``tiny``), and of its warm start."""
    teacher_warm_start_steps: Steps = 0
    """Supervised steps of the teacher on the training rows before anything else."""
    alpha: NotNegative = 0.0
    """Weight of the policy loss with the stage's advantages, beside the divergence of weight 1. At 0 rewards are only
    observed."""
    divergence: Annotated[Divergence, one_of(Divergence)] = "full"
    """Of each token over the whole vocabulary, or of the sampled token alone."""
