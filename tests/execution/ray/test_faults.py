# SPDX-License-Identifier: Apache-2.0
"""Faults that are really caused: each ends in the declared outcome, within its bound, and nothing else is lost."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from execution.ray.batches import batch, calls, is_alive, until, written
from execution.ray.conftest import Pool
from posttrain.errors import RewardUnavailableError
from posttrain.rewards import RewardWorker
from posttrain.schema import Trajectory


def in_process(scripts: list[Any], reward: str = "scripted") -> list[tuple[Any, ...]]:
    """What the same groups come to here, when nothing happens to them."""
    trajectories = batch([None if each is None else {} for each in scripts])
    RewardWorker(catalog="actor_rewards:catalog", reward=reward, group_size=2).score(trajectories)
    return written(trajectories)


def test_groups_of_a_killed_actor_are_scored_by_another(pool: Pool, tmp_path: Path) -> None:
    """An actor is SIGKILLed in the middle of a repeatable group; the batch comes out as if nothing had happened."""
    scripts: list[Any] = [{"folder": str(tmp_path)} for _ in range(12)]
    scripts[5] |= {"do": "kill"}
    trajectories = batch(scripts)
    worker = pool(min_actors=2, num_cpus=0.1)
    worker.score(trajectories)
    assert written(trajectories) == in_process(scripts)
    first, second = calls(tmp_path, "g5")
    assert first != second


def test_a_lost_group_that_is_not_repeatable_is_an_error_by_name(pool: Pool, tmp_path: Path) -> None:
    """The error names provider, group and actor, says why nobody else got it, and nothing is written."""
    trajectories = batch([{}, {"do": "kill", "folder": str(tmp_path)}])
    worker = pool(reward="once", num_cpus=0.1)
    with pytest.raises(
        RewardUnavailableError, match=r"(?s)actor 1 \(process \d+ on .* was lost: .*repeatable"
    ) as caught:
        worker.score(trajectories)
    assert caught.value.provider == "once"
    assert caught.value.group_id in {"g0", "g1"}
    assert len(calls(tmp_path, "g1")) == 1
    assert all(each.reward == {} and each.advantage is None for each in trajectories)
    # The pool is whole again.
    fresh = batch([{}, {}])
    worker.score(fresh)
    assert written(fresh) == in_process([{}, {}], "once")


def test_a_group_that_kills_every_actor_takes_no_other_with_it(pool: Pool, tmp_path: Path) -> None:
    """It is given out three times, alone after the first; dropped by cause, while its neighbours are scored."""
    scripts: list[Any] = [{"folder": str(tmp_path)} for _ in range(8)]
    scripts[3] |= {"do": "kill", "then": "kill"}
    trajectories = batch(scripts)
    worker = pool(num_cpus=0.1, redispatches=2, on_unavailable="drop_group")
    report = worker.score(trajectories)
    assert report.dropped == {"scripted: ActorLost": 1}
    assert len(set(calls(tmp_path, "g3"))) == 3
    dropped = [each.group_id for each in trajectories if not each.reward]
    assert dropped == ["g3", "g3"]
    expected = [each for each in in_process(scripts) if not each[0].startswith("g3/")]
    assert [each for each in written(trajectories) if not each[0].startswith("g3/")] == expected


def test_a_group_that_hangs_is_ended_and_the_rest_of_its_chunk_is_kept(pool: Pool, tmp_path: Path) -> None:
    """The provider sleeps past the limit: provider and group are named, done groups are not evaluated twice."""
    scripts: list[Any] = [{"folder": str(tmp_path)} for _ in range(4)]
    scripts[2] |= {"do": "sleep", "seconds": 600}
    trajectories = batch(scripts)
    worker = pool(reward="once", num_cpus=0.1, group_timeout_s=1.0, on_unavailable="drop_group")
    report = worker.score(trajectories)
    assert report.dropped == {"once: TimeoutError": 1}
    assert [each.group_id for each in trajectories if not each.reward] == ["g2", "g2"]
    assert [len(calls(tmp_path, f"g{number}")) for number in range(4)] == [1, 1, 1, 1]
    until(lambda: not is_alive(calls(tmp_path, "g2")[0]))


def test_a_provider_that_holds_the_interpreter_counts_as_lost(pool: Pool, tmp_path: Path) -> None:
    """Native code that never returns silences the whole process; with no redispatch left it is an error by name."""
    trajectories = batch([{"folder": str(tmp_path), "do": "hold"}])
    worker = pool(num_cpus=0.1, group_timeout_s=1.0, redispatches=0)
    with pytest.raises(
        RewardUnavailableError, match=r"no sign of life for [12]\.\d s \(group_timeout_s is 1 s\)"
    ) as lost:
        worker.score(trajectories)
    assert (lost.value.provider, lost.value.group_id) == ("scripted", "g0")
    until(lambda: not is_alive(calls(tmp_path, "g0")[0]))


@pytest.mark.slow
def test_a_suspended_actor_that_wakes_changes_nothing(pool: Pool, tmp_path: Path) -> None:
    """Its groups are given to another; then it wakes and answers: the late answer is counted, the numbers stand."""
    gate = tmp_path / "gate"
    folder = tmp_path / "calls"
    folder.mkdir()
    scripts: list[Any] = [
        {"folder": str(folder), "do": "suspend", "then": "wait", "file": str(gate)},
        {"folder": str(folder)},
    ]
    trajectories = batch(scripts)
    worker = pool(min_actors=2, num_cpus=0.1, group_timeout_s=3.0)
    worker.stage.open()
    failures: list[BaseException] = []

    def score() -> None:
        try:
            worker.score(trajectories)
        except BaseException as error:  # noqa: BLE001  # handed to the test's own thread
            failures.append(error)

    scoring = threading.Thread(target=score)
    scoring.start()
    evaluator: Any = worker.stage.evaluator
    try:
        # The group was given to another, which is at it.
        until(lambda: len(calls(folder, "g0")) == 2)
        os.kill(calls(folder, "g0")[0], signal.SIGCONT)
        until(lambda: evaluator.late_answers == 1)
    finally:
        gate.touch()
        scoring.join(30)
    assert failures == []
    assert written(trajectories) == in_process(scripts)
    until(lambda: not is_alive(calls(folder, "g0")[0]))


def test_an_actor_killed_from_outside_is_replaced(pool: Pool, tmp_path: Path) -> None:
    """One that is idle dies; the next batch starts another in its place, and is scored whole."""
    worker = pool(num_cpus=0.1)
    worker.score(batch([{"folder": str(tmp_path)}]))
    os.kill(calls(tmp_path, "g0")[0], signal.SIGKILL)
    trajectories: list[Trajectory] = batch([{"folder": str(tmp_path)}, {}])
    worker.score(trajectories)
    assert written(trajectories) == in_process([{}, {}])
    assert len(set(calls(tmp_path, "g0"))) == 2
