# SPDX-License-Identifier: Apache-2.0
"""The backend of a config is where its worker evaluates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from posttrain.errors import RewardConfigError
from posttrain.execution import ProcessEvaluator, RayEvaluator
from posttrain.rewards import InProcessEvaluator
from posttrain.runs import load_config
from posttrain.runs.config.backend import evaluator_of

NEEDED = ["rl.reward=nonempty", "rl.group_size=2"]


def test_in_process_is_the_default() -> None:
    """No process is started for a config that names no backend; another's section changes nothing."""
    config = load_config(None, [*NEEDED, "rl.reward_stage.processes.workers=7"])
    evaluator = config.worker().stage.evaluator
    assert isinstance(evaluator, InProcessEvaluator)
    assert evaluator.groups_in_flight == 1


def test_processes_with_their_section() -> None:
    """The section's keys reach the evaluator, for training and validation alike; each has a pool of its own."""
    config = load_config(
        None,
        [
            *NEEDED,
            "rl.reward_stage.backend=processes",
            "rl.reward_stage.processes.workers=3",
            "rl.reward_stage.processes.group_timeout_s=2.5",
        ],
    )
    for namespace in ("train", "val"):
        worker = config.worker(namespace="val" if namespace == "val" else "train")
        assert isinstance(worker.stage.evaluator, ProcessEvaluator)
        assert worker.stage.evaluator.groups_in_flight == 3
        assert "group_timeout_s=2.5" in repr(worker.stage.evaluator)


def test_an_evaluator_that_is_given_wins() -> None:
    """The caller's choice comes before the config's."""
    config = load_config(None, [*NEEDED, "rl.reward_stage.backend=processes"])
    mine = InProcessEvaluator()
    assert config.worker(evaluator=mine).stage.evaluator is mine


def test_where_groups_run_is_no_part_of_the_identity() -> None:
    """A run may be resumed on another backend: the results are the same."""
    here = load_config(None, NEEDED).worker()
    there = load_config(None, [*NEEDED, "rl.reward_stage.backend=processes"]).worker()
    assert here.stage_identity == there.stage_identity


def test_ray_with_its_section(written: Callable[..., Path]) -> None:
    """The section's keys reach the evaluator; nothing of Ray is started by making it."""
    environment = written("environment.yaml", "env_vars: {JUDGE_KEY: sk-live-7f3a9}\n")
    config = load_config(
        None,
        [
            *NEEDED,
            "rl.reward_stage.backend=ray",
            "rl.reward_stage.ray.min_actors=2",
            "rl.reward_stage.ray.max_actors=5",
            "rl.reward_stage.ray.resources.reward_gpu=0.5",
            f"rl.reward_stage.ray.runtime_env={environment}",
        ],
    )
    evaluator = evaluator_of(config)
    assert isinstance(evaluator, RayEvaluator)
    assert (evaluator.settings.min_actors, evaluator.settings.most) == (2, 5)
    assert dict(evaluator.settings.resources) == {"reward_gpu": 0.5}
    assert evaluator.settings.runtime_env == {"env_vars": {"JUDGE_KEY": "sk-live-7f3a9"}}
    assert "sk-live" not in repr(evaluator) + repr(evaluator.settings) + config.to_toml()


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("env_vars: {A: [}", "is no YAML"),
        ("- sk-live-7f3a9", "expected a mapping such as env_vars"),
        (None, "can't be read: No such file or directory"),
    ],
)
def test_a_runtime_environment_that_can_not_be_read(
    written: Callable[..., Path], tmp_path: Path, content: str | None, fault: str
) -> None:
    """The key and the file are named, and nothing of what it holds is shown."""
    file = tmp_path / "none.yaml" if content is None else written("environment.yaml", content)
    config = load_config(None, [*NEEDED, "rl.reward_stage.backend=ray", f"rl.reward_stage.ray.runtime_env={file}"])
    with pytest.raises(RewardConfigError, match=rf"rl\.reward_stage\.ray\.runtime_env: .*{fault}") as caught:
        config.worker()
    assert "sk-live" not in str(caught.value)


def test_a_pool_that_can_not_be_is_refused() -> None:
    """The bounds are compared when the evaluator is made."""
    config = load_config(
        None,
        [
            *NEEDED,
            "rl.reward_stage.backend=ray",
            "rl.reward_stage.ray.min_actors=3",
            "rl.reward_stage.ray.max_actors=2",
        ],
    )
    with pytest.raises(RewardConfigError, match="max_actors: expected at least min_actors = 3, got 2"):
        config.worker()
