# SPDX-License-Identifier: Apache-2.0
"""The same batch comes to the same bits in process and on reward actors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from execution.ray.batches import written
from execution.ray.conftest import Pool
from posttrain.execution.ray import RayEvaluator
from posttrain.rewards import RewardWorker
from posttrain.schema import Observation, Trajectory
from strategies import json_values, text

SUITES: tuple[dict[str, Any], ...] = (
    {"reward": "scripted", "group_size": 3},
    {"reward": ["tenth", "scripted", "parallel"], "group_size": 2, "weights": {"vowels": 0.3, "length": -1.7}},
    {"reward": ["parallel"], "group_size": 1},
)


@pytest.fixture(scope="module")
def pairs(module_pool: Pool) -> list[tuple[RewardWorker, RewardWorker]]:
    """For each suite a worker in process and one on two actors."""
    policy: dict[str, Any] = {"on_unavailable": "drop_group", "max_dropped_fraction": 1.0}
    return [
        (
            RewardWorker(catalog="actor_rewards:catalog", **policy, **suite),
            module_pool(min_actors=2, num_cpus=0.1, **policy, **suite),
        )
        for suite in SUITES
    ]


# A list is no script: such a reference travels, and nothing is done.
references = st.one_of(json_values.filter(lambda each: each is not None).map(lambda each: [each]), st.just({}))
unavailable = st.just({"do": "raise", "kind": "unavailable"})


@st.composite
def batches(draw: st.DrawFn, size: int) -> list[Trajectory]:
    """Groups of `size`, with any texts and references, some of which say that their group can't be scored."""
    made = []
    for number in range(draw(st.integers(1, 12))):
        group, reference = f"g{number}", draw(st.one_of(references, references, references, unavailable))
        for place in range(size):
            reason = draw(st.sampled_from([None, "stop", "length"]))
            made.append(
                Trajectory(
                    trajectory_id=f"{group}/{place}",
                    group_id=group,
                    obs=Observation(id=group, prompt="p", reference=reference),
                    completion=draw(text),
                    policy_info={"finish_reason": reason},
                )
            )
    return draw(st.permutations(made))


def copy_of(trajectories: list[Trajectory]) -> list[Trajectory]:
    """The same trajectories with records of their own."""
    return [
        Trajectory(
            trajectory_id=each.trajectory_id,
            group_id=each.group_id,
            obs=each.obs,
            completion=each.completion,
            policy_info=each.policy_info,
        )
        for each in trajectories
    ]


@pytest.mark.parametrize("suite", range(len(SUITES)))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_a_random_batch_comes_to_the_same_bits(
    pairs: list[tuple[RewardWorker, RewardWorker]], suite: int, data: st.DataObject
) -> None:
    """Rewards, advantages, dropped groups, metrics and failures are equal for any batch."""
    found: list[Any] = []
    batch = data.draw(batches(SUITES[suite]["group_size"]))
    for worker in pairs[suite]:
        trajectories = copy_of(batch)
        try:
            report = worker.score(trajectories)
        except Exception as error:  # noqa: BLE001  # compared below
            found.append((type(error), str(error)))
        else:
            metrics = {
                name: value.hex()
                for name, value in report.metrics().items()
                if "most" not in name or suite == 0  # how many were at once depends on the moment
            }
            found.append((written(trajectories), metrics, report.dropped))
    assert found[0] == found[1]


def test_the_published_gsm8k_solutions_come_to_the_same_bits(the_ray: Any, repository: Path, tmp_path: Path) -> None:
    """5,276 published solutions in 1,319 groups of 4, on three actors."""
    script = repository.parent / "shared" / "data" / "gsm8k" / "prepare.py"
    if not script.is_file():
        pytest.skip("the published solutions are not beside this checkout")
    subprocess.run([sys.executable, "-I", str(script), str(tmp_path)], capture_output=True, timeout=120, check=True)
    rows = [json.loads(line) for line in (tmp_path / "rollouts.jsonl").read_text(encoding="utf-8").splitlines()]
    found = []
    for evaluator in (None, RayEvaluator(min_actors=3, num_cpus=0.1)):
        trajectories = [_trajectory(row) for row in rows]
        with RewardWorker(reward="gsm8k", group_size=4, evaluator=evaluator) as worker:
            report = worker.score(trajectories)
        found.append((written(trajectories), report.metrics()))
    assert found[0] == found[1]
    assert found[0][1]["train/reward/final/mean"] == 2001 / 5276


def _trajectory(row: dict[str, Any]) -> Trajectory:
    return Trajectory(
        trajectory_id=row["trajectory_id"],
        group_id=row["group_id"],
        obs=Observation(id=row["group_id"], prompt=row["question"], reference=row["answer"]),
        completion=row["completion"],
    )
