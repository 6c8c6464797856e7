# SPDX-License-Identifier: Apache-2.0
"""What the keys of the trainers take and do not take, for `test_model`: a section each."""

from __future__ import annotations

from typing import Any

from runs.config.nft_keys import NFT_NOT_TAKEN, NFT_TAKEN

__all__ = ["NOT_TAKEN", "OPEN_KEYS", "TAKEN_TOO"]

OPEN_KEYS = {"rl.grpo.trl"}
"""Keys below which names are free, tried name by name."""

_GRPO_COUNTS = (
    *("steps", "prompts_per_step", "completions_per_device", "max_completion_length", "max_prompt_length"),
    *("num_iterations", "save_steps", "keep_checkpoints"),
)

TAKEN_TOO: dict[str, list[tuple[str, Any]]] = {
    "rl.validation.path": [("held_out.jsonl", "held_out.jsonl")],
    "rl.validation.source": [("jsonl", "jsonl"), ("function", "function")],
    "rl.validation.name": [("main", "main")],
    "rl.validation.revision": [("v1.0", "v1.0")],
    "rl.validation.split": [("test[:10%]", "test[:10%]")],
    "rl.validation.temperature": [("0", 0.0), ("0.7", 0.7)],
    "rl.validation.seed": [("4294967295", 4294967295)],
    "rl.validation.batch_size": [("64", 64)],
    "rl.policy.model": [("tiny", "tiny"), ("gguf:models/a.gguf", "gguf:models/a.gguf"), ("org/model", "org/model")],
    "rl.policy.revision": [("v1", "v1")],
    "rl.policy.dtype": [("float32", "float32"), ("bfloat16", "bfloat16")],
    "rl.policy.device": [("auto", "auto"), ("cpu", "cpu")],
    "rl.policy.seed": [("3", 3)],
    "rl.policy.warm_start_steps": [("0", 0), ("180", 180)],
    "rl.policy.lora_rank": [("8", 8)],
    **{f"rl.grpo.{name}": [("1", 1), ("64", 64)] for name in _GRPO_COUNTS if name != "num_iterations"},
    "rl.grpo.num_iterations": [("1", 1), ("2", 2)],
    "rl.grpo.learning_rate": [("1e-6", 1e-6), ("1", 1.0)],
    "rl.grpo.temperature": [("0.7", 0.7)],
    "rl.grpo.beta": [("0", 0.0), ("0.04", 0.04)],
    "rl.grpo.seed": [("7", 7)],
    "rl.grpo.ranks_timeout_s": [("5", 5.0)],
    "rl.grpo.use_vllm": [("true", True)],
    "rl.opd.teacher": [("tiny", "tiny"), ("org/model", "org/model")],
    "rl.opd.teacher_revision": [("v1", "v1")],
    "rl.opd.teacher_dtype": [("float32", "float32"), ("bfloat16", "bfloat16")],
    "rl.opd.teacher_seed": [("3", 3)],
    "rl.opd.teacher_warm_start_steps": [("0", 0), ("600", 600)],
    "rl.opd.alpha": [("0", 0.0), ("0.5", 0.5)],
    "rl.opd.divergence": [("full", "full"), ("sampled", "sampled")],
    "rl.run.tensorboard": [("true", True)],
    "rl.run.wandb_project": [("rewards", "rewards")],
    "rl.run.mlflow_experiment": [("rewards", "rewards")],
    **NFT_TAKEN,
}
NOT_TAKEN: dict[str, list[tuple[str, str]]] = {
    "rl.validation.path": [("~/x.jsonl", "~ is not expanded")],
    "rl.validation.source": [("csv", "expected one of jsonl, hf, function")],
    "rl.validation.name": [("''", "got an empty one")],
    "rl.validation.revision": [("1", "put it in quotes")],
    "rl.validation.split": [("''", "got an empty one")],
    "rl.validation.temperature": [("-0.1", "at least 0"), ("1e999", "got inf")],
    "rl.validation.seed": [("-1", "from 0 to 4294967295")],
    "rl.validation.batch_size": [("0", "at least 1")],
    "rl.policy.model": [("8", "put it in quotes"), ("''", "got an empty one")],
    "rl.policy.revision": [("1", "put it in quotes")],
    "rl.policy.dtype": [("float16", "expected one of float32, bfloat16"), ("bf16", "expected one of")],
    "rl.policy.device": [("cuda", "expected one of auto, cpu")],
    "rl.policy.seed": [("-1", "from 0 to 4294967295")],
    "rl.policy.warm_start_steps": [("-1", "at least 0"), ("1.0", "write 1")],
    "rl.policy.lora_rank": [("0", "at least 1")],
    "rl.policy.lora_alpha": [("8", "set rl.policy.lora_rank too"), ("0", "at least 1")],
    **{f"rl.grpo.{name}": [("0", "at least 1"), ("1.5", "got 1.5")] for name in _GRPO_COUNTS},
    "rl.grpo.learning_rate": [("0", "above 0"), ("'1'", "write 1 without quotes")],
    "rl.grpo.temperature": [("0", "above 0")],
    "rl.grpo.beta": [("-1", "at least 0")],
    "rl.grpo.seed": [("-1", "from 0 to 4294967295")],
    "rl.grpo.ranks_timeout_s": [("0", "above 0")],
    "rl.grpo.use_vllm": [("1", "write true")],
    "rl.grpo.trl.top_p": [("[1, 2]", "expected a number, a text, true or false")],
    "rl.opd.teacher": [("8", "put it in quotes"), ("''", "got an empty one")],
    "rl.opd.teacher_revision": [("1", "put it in quotes")],
    "rl.opd.teacher_dtype": [("float16", "expected one of float32, bfloat16")],
    "rl.opd.teacher_seed": [("-1", "from 0 to 4294967295")],
    "rl.opd.teacher_warm_start_steps": [("-1", "at least 0"), ("1.0", "write 1")],
    "rl.opd.alpha": [("-1", "at least 0"), ("1e999", "got inf")],
    "rl.opd.divergence": [("forward", "expected one of full, sampled"), ("ful", "did you mean full?")],
    "rl.run.tensorboard": [("1", "write true")],
    "rl.run.wandb_project": [("''", "got an empty one")],
    "rl.run.mlflow_experiment": [("8", "put it in quotes")],
    **NFT_NOT_TAKEN,
}
