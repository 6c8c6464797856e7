# SPDX-License-Identifier: Apache-2.0
"""The pool: shared by calls that overlap, between a least and a most, and gone when it is closed."""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from typing import Any

import pytest

from execution.ray.batches import batch, calls, is_alive, until, written
from execution.ray.conftest import Pool
from posttrain.rewards import RewardWorker


def test_two_calls_at_once_share_the_actors(pool: Pool, tmp_path: Path) -> None:
    """Validation runs on the pool while training waits for a slow group; each gets its own results."""
    gate, folder = tmp_path / "gate", tmp_path / "calls"
    folder.mkdir()
    worker = pool(min_actors=2, num_cpus=0.1)
    slow = batch([{"do": "wait", "file": str(gate), "folder": str(folder)}])
    thread = threading.Thread(target=worker.score, args=[slow])
    thread.start()
    until(lambda: calls(folder, "g0"))
    quick = batch([{}] * 6)
    worker.score(quick)
    assert thread.is_alive()
    gate.touch()
    thread.join(30)
    here = RewardWorker(catalog="actor_rewards:catalog", reward="scripted", group_size=2)
    for trajectories in (slow, quick):
        expected = batch([{}] * (len(trajectories) // 2))
        here.score(expected)
        assert written(trajectories) == written(expected)


@pytest.mark.slow
def test_the_pool_grows_with_the_backlog_and_shrinks_when_idle(pool: Pool, tmp_path: Path) -> None:
    """One actor, a backlog of many seconds: more come; without work those above the least go."""
    worker = pool(min_actors=1, max_actors=4, num_cpus=0.1, idle_s=0.5)
    scripts = [{"do": "sleep", "seconds": 0.2, "folder": str(tmp_path)} for _ in range(60)]
    worker.score(batch(scripts))
    used = {calls(tmp_path, f"g{number}")[0] for number in range(60)}
    assert 2 <= len(used) <= 4
    evaluator: Any = worker.stage.evaluator
    until(lambda: evaluator.actors == 1)
    until(lambda: sum(map(is_alive, used)) <= 1)
    worker.score(batch([{}] * 3))


def test_cheap_groups_start_no_more_actors(pool: Pool) -> None:
    """What is done before another actor could be there is left to those that are."""
    worker = pool(min_actors=1, max_actors=8, num_cpus=0.1)
    worker.score(batch([{}] * 400))
    evaluator: Any = worker.stage.evaluator
    assert evaluator.actors == 1


def test_declared_concurrency_is_used_and_kept(pool: Pool) -> None:
    """A provider with four groups in flight has at most four in its hands in one actor; a config may lower that."""
    for limit, most in ((None, 4.0), (2, 2.0), (1, 1.0)):
        worker = pool(reward="parallel", num_cpus=0.1, groups_in_flight=limit)
        report = worker.score(batch([{}] * 40))
        assert report.metrics()["train/reward_provider/parallel/most"] == most
        worker.close()


def test_closing_leaves_no_actor_and_no_reference(pool: Pool, tmp_path: Path, the_ray: Any) -> None:
    """After a batch, a fault and a close, the actors' processes are gone and the driver holds no object of Ray."""
    worker = pool(min_actors=2, num_cpus=0.1)
    worker.score(batch([{"folder": str(tmp_path)} for _ in range(20)]))
    with pytest.raises(Exception, match="said so"):
        worker.score(batch([{"do": "raise", "kind": "contract"}]))
    used = {calls(tmp_path, f"g{number}")[0] for number in range(20)}
    worker.close()
    until(lambda: not any(map(is_alive, used)))
    gc.collect()
    assert [each for each in gc.get_objects() if type(each) is the_ray.ObjectRef] == []
    assert [each for each in threading.enumerate() if each.name == "posttrain-ray"] == []


def test_closing_while_a_batch_is_under_way_ends_it(pool: Pool, tmp_path: Path) -> None:
    """The caller of the batch gets an error at once, not a wait for ever."""
    worker = pool(num_cpus=0.1)
    trajectories = batch([{"do": "sleep", "seconds": 600, "folder": str(tmp_path)}])
    found: list[BaseException] = []

    def score() -> None:
        try:
            worker.score(trajectories)
        except BaseException as error:  # noqa: BLE001  # handed to the test's own thread
            found.append(error)

    thread = threading.Thread(target=score)
    thread.start()
    until(lambda: calls(tmp_path, "g0"))
    worker.close()
    thread.join(30)
    assert [str(each) for each in found] == ["the evaluator was closed while it was in use"]
    assert all(each.reward == {} for each in trajectories)
    until(lambda: not is_alive(calls(tmp_path, "g0")[0]))
