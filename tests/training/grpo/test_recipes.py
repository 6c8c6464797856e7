# SPDX-License-Identifier: Apache-2.0
"""Every recipe is a config that a run could be made of; the one that needs nothing else is begun."""

from __future__ import annotations

from pathlib import Path

import pytest

from posttrain.errors import RewardConfigError
from posttrain.runs import load_config
from posttrain.runs.directory import RecordedRun
from posttrain.training.grpo import run_grpo
from posttrain.training.online.settings import check_settings

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{kind}") for kind in ("DeprecationWarning", "FutureWarning", "UserWarning")
]


@pytest.mark.parametrize("name", ["grpo_tiny", "grpo_smollm2", "grpo_vllm"])
def test_a_recipe_is_a_config(repository: Path, name: str) -> None:
    """It loads, and nothing is missing but what a machine may lack."""
    config = load_config(repository / "recipes" / f"{name}.toml")
    assert config.validation.enabled
    try:
        check_settings(config)
    except RewardConfigError as error:
        lines = str(error).splitlines()[1:]
        assert name == "grpo_vllm"
        assert lines == [f"  rl.grpo.use_vllm: {lines[0].partition(': ')[2]}"]
        assert "vLLM is not installed" in lines[0]


def test_the_settings_of_the_gpu_recipe_are_trls(repository: Path) -> None:
    """Each name below rl.grpo.trl is a field of the `GRPOConfig` that is installed."""
    from dataclasses import fields

    from trl.trainer.grpo_config import GRPOConfig

    config = load_config(repository / "recipes" / "grpo_vllm.toml")
    assert set(config.grpo.trl) <= {each.name for each in fields(GRPOConfig)}


@pytest.mark.slow
def test_the_tiny_recipe_runs(repository: Path, tmp_path: Path) -> None:
    """A few steps of it, as it is: the warm start is where the documentation says, and the reward is the built-in's."""
    overrides = [f"rl.run.directory={tmp_path}", "rl.run.name=a", "rl.grpo.steps=2", "rl.grpo.save_steps=2"]
    outcome = run_grpo(load_config(repository / "recipes" / "grpo_tiny.toml", overrides))
    run = RecordedRun(outcome.path)
    assert outcome.before is not None
    assert 0.1 < outcome.before < 0.6
    assert run.metrics()[1]["train/group/count"] == 32.0
    assert "train/reward/arithmetic/mean" in run.metrics()[2]
