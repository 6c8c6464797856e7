# SPDX-License-Identifier: Apache-2.0
"""TRL's own settings, out of the run's config."""

from __future__ import annotations

import difflib
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from posttrain.errors import RewardConfigError, listing, text_of
from posttrain.integrations.trl.installed import check_trl
from posttrain.runs.config import RLConfig
from posttrain.training.online.settings import place

if TYPE_CHECKING:
    from trl.trainer.grpo_config import GRPOConfig

__all__ = ["trainer_arguments"]


def trainer_arguments(config: RLConfig) -> GRPOConfig:
    """TRL's settings. Making them starts the process group where a launcher asks for one; the folder is set later.

    Raises:
        RewardConfigError: TRL is missing or another one, or a setting under ``rl.grpo.trl`` is none of TRL's.
    """
    check_trl()
    try:
        from trl.trainer.grpo_config import GRPOConfig
    except ImportError as error:
        raise RewardConfigError(f'training needs posttrain[train]: pip install "posttrain[train]" ({error})') from error
    known = [each.name for each in fields(GRPOConfig) if each.init]
    faults = []
    for name in config.grpo.trl:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            faults.append(f"rl.grpo.trl.{name}: TRL has no such setting{f'; did you mean {near[0]}?' if near else ''}")
    if faults:
        raise RewardConfigError(f"settings that TRL does not know:\n{listing(faults)}")
    # Off, as transformers has it and TRL does not; the setting has two names.
    recompute = next(name for name in ("activation_checkpointing", "gradient_checkpointing") if name in known)
    try:
        return GRPOConfig(**{recompute: False, **_ours(config), **config.grpo.trl})
    except (TypeError, ValueError) as error:
        raise RewardConfigError(f"rl.grpo: TRL refuses these settings: {text_of(error)}") from error


def _ours(config: RLConfig) -> dict[str, Any]:
    ours, (_, ranks) = config.grpo, place()
    share = ours.prompts_per_step * config.group_size // ranks
    at_once = ours.completions_per_device or share
    return {
        "output_dir": "checkpoints",
        "max_steps": ours.steps,
        "num_generations": config.group_size,
        "per_device_train_batch_size": at_once,
        "gradient_accumulation_steps": share // at_once,
        "learning_rate": ours.learning_rate,
        "lr_scheduler_type": "constant",
        "max_completion_length": ours.max_completion_length,
        "temperature": ours.temperature,
        "beta": ours.beta,
        "num_iterations": ours.num_iterations,
        "seed": ours.seed,
        "save_strategy": "steps",
        "save_steps": ours.save_steps or ours.steps,
        "use_vllm": ours.use_vllm,
        "use_cpu": config.policy.device == "cpu",
        "bf16": config.policy.dtype == "bfloat16",
        "ddp_timeout": int(ours.ranks_timeout_s) + 1,
        # The order is that of the data's own seed, see `posttrain.data.Env`.
        "shuffle_dataset": False,
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "report_to": "none",
        "disable_tqdm": True,
    }
