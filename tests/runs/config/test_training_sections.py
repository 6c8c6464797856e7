# SPDX-License-Identifier: Apache-2.0
"""Keys of the trainers that depend on each other, and what holds where nobody says anything."""

from __future__ import annotations

from typing import Any

import pytest

from posttrain.errors import RewardConfigError
from posttrain.runs import RLConfig, load_config


def config_of(*overrides: str) -> RLConfig:
    """A config with the keys that it needs and these."""
    return load_config(None, ["rl.reward=gsm8k", "rl.group_size=8", *overrides])


def test_the_defaults_of_a_grpo_run() -> None:
    """Small enough to begin with, and nothing that writes anywhere but into the run's folder."""
    config = config_of()
    assert config.grpo.model_dump() == {
        "steps": 100,
        "prompts_per_step": 8,
        "completions_per_device": None,
        "learning_rate": 1e-6,
        "max_completion_length": 256,
        "max_prompt_length": None,
        "temperature": 1.0,
        "beta": 0.0,
        "num_iterations": 1,
        "seed": 0,
        "save_steps": None,
        "keep_checkpoints": 2,
        "ranks_timeout_s": 600.0,
        "use_vllm": False,
        "trl": {},
    }
    assert config.policy.model_dump() == {
        "model": None,
        "revision": None,
        "dtype": "float32",
        "device": "auto",
        "seed": 0,
        "warm_start_steps": 0,
        "lora_rank": None,
        "lora_alpha": None,
    }
    held_out: dict[str, Any] = {"path": None, "source": None, "name": None, "revision": None, "split": "test"}
    held_out |= {"temperature": None, "seed": 0, "batch_size": 256}
    assert config.validation.model_dump().items() >= held_out.items()
    assert config.run.model_dump() == {
        "name": None,
        "directory": "runs",
        "tensorboard": False,
        "wandb_project": None,
        "mlflow_experiment": None,
    }


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["rl.grpo.steps=5", "rl.grpo.num_iterations=2"], "rl.grpo.steps=5 is no multiple of num_iterations=2"),
        (["rl.grpo.save_steps=3", "rl.grpo.num_iterations=2"], "save_steps=3 is no multiple of rl.grpo.num_iterations"),
        (["rl.policy.lora_alpha=8"], "there are no adapters to scale: set rl.policy.lora_rank too"),
        (
            ["rl.validation.n_generation=2", "rl.validation.temperature=0"],
            "greedy completions of a prompt are",
        ),
        (["rl.data.path=my/rows.jsonl", "rl.data.source=function"], "expected package.module:function"),
        (["rl.validation.path=a b", "rl.validation.source=function"], "expected package.module:function"),
        (
            ["rl.data.path=a:b", "rl.data.source=function", "rl.data.items_fn=c:d"],
            "let the function that makes",
        ),
    ],
)
def test_keys_that_do_not_go_together(overrides: list[str], told: str) -> None:
    """Each names what does not fit, and how to mend it."""
    with pytest.raises(RewardConfigError, match="is not valid") as caught:
        config_of(*overrides)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("overrides", "temperature"),
    [([], 0.0), (["rl.validation.n_generation=4"], 1.0), (["rl.validation.temperature=0.5"], 0.5)],
)
def test_the_temperature_of_validation(overrides: list[str], temperature: float) -> None:
    """One completion is the likeliest one, several are drawn, and what is said holds."""
    assert config_of(*overrides).validation.sampling_temperature == temperature


def test_settings_of_trl_are_kept_as_they_are() -> None:
    """Numbers, texts and switches, whole or one by one, through the text of the config and back."""
    config = config_of("rl.grpo.trl={top_p: 0.9, vllm_mode: colocate}", "rl.grpo.trl.log_completions=true")
    kept: dict[str, Any] = {"top_p": 0.9, "vllm_mode": "colocate", "log_completions": True}
    assert dict(config.grpo.trl) == kept
    assert '[rl.grpo.trl]\ntop_p = 0.9\nvllm_mode = "colocate"\nlog_completions = true' in config.to_toml()
    with pytest.raises(RewardConfigError, match=r"rl\.grpo\.trl: .*expected a mapping|expected a mapping"):
        config_of("rl.grpo.trl=8")


def test_a_source_is_found_for_held_out_rows() -> None:
    """By the path, as for the training rows."""
    assert config_of("rl.validation.path=held_out.jsonl.gz").validation.source == "jsonl"
    assert config_of("rl.validation.path=openai/gsm8k").validation.source == "hf"
    assert config_of().validation.source is None
