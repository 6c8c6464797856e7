# SPDX-License-Identifier: Apache-2.0
"""Small runs: four steps of two groups of four, on sums, in a few seconds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.runs import RLConfig, load_config

CATALOG = Path(__file__).with_name("killing_rewards.py")

# What the libraries below say about themselves is no fault of the tests.
QUIET = ("DeprecationWarning", "FutureWarning", "UserWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the libraries below warn, in this folder only."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            for kind in QUIET:
                item.add_marker(pytest.mark.filterwarnings(f"ignore::{kind}"))


@pytest.fixture(scope="session")
def keys() -> Callable[..., list[str]]:
    """The overrides of a small run in a folder."""

    def make(folder: Path, name: str, *overrides: str) -> list[str]:
        held_out = "posttrain.training.tiny.addition:held_out_rows"
        return [
            *("rl.reward=close", f"rl.reward_catalog={CATALOG.name}:catalog", "rl.group_size=4"),
            f"rl.reward_catalog_folder={CATALOG.parent}",
            *("rl.data.source=function", "rl.data.path=posttrain.training.tiny.addition:training_rows"),
            *("rl.policy.model=tiny", "rl.policy.device=cpu", "rl.policy.warm_start_steps=10"),
            *("rl.grpo.steps=4", "rl.grpo.prompts_per_step=2", "rl.grpo.learning_rate=1e-3"),
            *("rl.grpo.max_completion_length=4", "rl.grpo.save_steps=2"),
            *("rl.validation.enabled=true", "rl.validation.source=function", f"rl.validation.path={held_out}"),
            *("rl.validation.interval=2", "rl.validation.n_generation=2"),
            *(f"rl.run.directory={folder}", f"rl.run.name={name}", *overrides),
        ]

    return make


@pytest.fixture
def small(keys: Callable[..., list[str]], tmp_path: Path) -> Callable[..., RLConfig]:
    """The config of a small run in `tmp_path`."""
    return lambda name, *overrides: load_config(None, keys(tmp_path, name, *overrides))


@pytest.fixture(scope="session")
def left() -> Callable[[Path], dict[str, Any]]:
    """What a run left behind that has to be the same whenever it is run: all but times."""

    def read(path: Path) -> dict[str, Any]:
        timed = ("time", "trainer/step_time", "trainer/stage_seconds")
        lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
        return {
            "metrics": [{key: value for key, value in line.items() if key not in timed} for line in lines],
            "scored": {file.name: file.read_text() for file in sorted((path / "scored").iterdir())},
            "validated": {
                str(file.relative_to(path)): file.read_text()
                for file in sorted((path / "validation").glob("*/*.json*"))
                if file.is_file()
            },
            "checkpoints": sorted(each.name for each in (path / "checkpoints").iterdir()),
        }

    return read
