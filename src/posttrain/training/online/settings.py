# SPDX-License-Identifier: Apache-2.0
"""What a run needs of its config, looked at before anything heavy is loaded."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Final

from posttrain.errors import RewardConfigError, listing
from posttrain.runs.config import RLConfig

__all__ = ["OURS", "check_settings", "place"]

OURS: Final[Mapping[str, str]] = {
    "auto_find_batch_size": "rl.grpo.completions_per_device",
    "bf16": "rl.policy.dtype",
    "beta": "rl.grpo.beta",
    "dataloader_num_workers": "rl.data, whose rows are drawn in the trainer's own process",
    "ddp_timeout": "rl.grpo.ranks_timeout_s",
    "disable_tqdm": "the command's own progress bar",
    "do_eval": "rl.validation",
    "eval_on_start": "rl.validation",
    "eval_steps": "rl.validation.interval",
    "eval_strategy": "rl.validation",
    "fp16": "rl.policy.dtype",
    "generation_batch_size": "rl.grpo.prompts_per_step",
    "gradient_accumulation_steps": "rl.grpo.completions_per_device",
    "ignore_data_skip": "--resume",
    "learning_rate": "rl.grpo.learning_rate",
    "load_best_model_at_end": "rl.grpo.keep_checkpoints",
    "logging_nan_inf_filter": "the run, which ends when a loss is not finite",
    "logging_steps": "the run, which logs each step",
    "mask_truncated_completions": "rl.mask_truncated",
    "max_completion_length": "rl.grpo.max_completion_length",
    "max_steps": "rl.grpo.steps",
    "model_init_kwargs": "rl.policy",
    "multi_objective_aggregation": "rl.reward_stage.weights",
    "num_generations": "rl.group_size",
    "num_generations_eval": "rl.validation.n_generation",
    "num_iterations": "rl.grpo.num_iterations",
    "num_train_epochs": "rl.grpo.steps",
    "output_dir": "rl.run.directory",
    "per_device_eval_batch_size": "rl.validation.batch_size",
    "per_device_train_batch_size": "rl.grpo.completions_per_device",
    "push_to_hub": "nothing: a run sends nothing away",
    "remove_unused_columns": "rl.data",
    "report_to": "rl.run.tensorboard, rl.run.wandb_project and rl.run.mlflow_experiment",
    "resume_from_checkpoint": "--resume",
    "reward_weights": "rl.reward_stage.weights",
    "save_only_model": "rl.grpo.save_steps",
    "save_steps": "rl.grpo.save_steps",
    "save_strategy": "rl.grpo.save_steps",
    "save_total_limit": "rl.grpo.keep_checkpoints",
    "scale_rewards": "rl.reward_stage.estimator",
    "seed": "rl.grpo.seed",
    "shuffle_dataset": "rl.data.shuffle",
    "steps_per_generation": "rl.grpo.prompts_per_step",
    "temperature": "rl.grpo.temperature",
    "use_cpu": "rl.policy.device",
    "use_vllm": "rl.grpo.use_vllm",
}
"""Setting of TRL to what decides it here."""


def place() -> tuple[int, int]:
    """This process's number and how many there are, as the launcher says; 0 and 1 without one."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def check_settings(config: RLConfig, *, needs_policy: bool = True) -> None:
    """Refuse a config that no run can be made of, all faults at once. Loads nothing.

    Args:
        config: the config.
        needs_policy: whether ``rl.policy.model`` has to be set.

    Raises:
        RewardConfigError: naming every key.
    """
    faults = [*_missing(config, needs_policy=needs_policy), *_batch(config), *_others(config)]
    if faults:
        raise RewardConfigError(f"this config can't be trained with:\n{listing(faults)}")


def _missing(config: RLConfig, *, needs_policy: bool) -> Iterator[str]:
    if config.data.path is None:
        yield "rl.data.path: missing; it names the training rows"
    if needs_policy and config.policy.model is None:
        yield "rl.policy.model: missing; expected tiny, gguf:FILE, a folder, or the name of a model on the hub"
    held_out = config.validation
    if held_out.enabled and held_out.path is None:
        yield "rl.validation.path: missing; rl.validation.enabled is true, and the training rows are not held out"
    if config.group_size < 2:
        yield f"rl.group_size={config.group_size}: a group of one has nothing to be compared with; set it to 2 or more"


def _batch(config: RLConfig) -> Iterator[str]:
    ours, (_, ranks) = config.grpo, place()
    total = ours.prompts_per_step * config.group_size
    if total % ranks:
        yield (
            f"rl.grpo.prompts_per_step={ours.prompts_per_step} x rl.group_size={config.group_size} = {total} "
            f"completions can't be shared out evenly to {ranks} processes"
        )
        return
    share, at_once = total // ranks, ours.completions_per_device
    if at_once is not None and share % at_once:
        yield f"rl.grpo.completions_per_device={at_once} does not divide the {share} completions of a process"


def _others(config: RLConfig) -> Iterator[str]:
    for name in config.grpo.trl:
        if name in OURS:
            yield f"rl.grpo.trl.{name}: that is decided by {OURS[name]}; set it there"
    if config.grpo.use_vllm and find_spec("vllm") is None:
        yield "rl.grpo.use_vllm: vLLM is not installed: pip install vllm, in the version that TRL names"
