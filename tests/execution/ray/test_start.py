# SPDX-License-Identifier: Apache-2.0
"""What is checked before the first group: the selection, the actor's environment, the room in the cluster."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest

from execution.ray.batches import batch
from execution.ray.conftest import Pool
from posttrain.errors import RewardConfigError, RewardUnavailableError
from posttrain.execution.ray import RayEvaluator
from posttrain.rewards import RewardWorker
from posttrain.testing import ScriptedProvider


def test_another_identity_in_the_actor_is_refused(pool: Pool) -> None:
    """The actor's environment makes another revision of the provider: both are shown, nothing is scored."""
    worker = pool(runtime_env={"env_vars": {"REWARDS_REVISION": "2"}}, num_cpus=0.1)
    with pytest.raises(RewardConfigError, match=r'(?s)resolves other providers.*"revision":"1".*"revision":"2"'):
        worker.score(batch([{}]))


def test_a_catalog_that_fails_in_the_actor_is_an_error_that_says_where(pool: Pool) -> None:
    """The factory exits on the actor's machine only."""
    worker = pool(runtime_env={"env_vars": {"REWARDS_REVISION": "broken"}}, num_cpus=0.1)
    with pytest.raises(RewardConfigError, match="data is not on this machine") as caught:
        worker.stage.open()
    assert re.search(r"in the reward actor \d+ on .* \(node [0-9a-f]{12}\)", caught.value.__notes__[0])


def test_a_missing_credential_is_named_and_a_present_one_is_not_shown(
    pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    """The variable that the identity references is missing, then empty, then there; its value appears nowhere."""
    caplog.set_level(logging.DEBUG)
    for variables in ({}, {"REWARDS_TEST_KEY": ""}):
        worker = pool(reward="judge", runtime_env={"env_vars": variables}, num_cpus=0.1)
        with pytest.raises(RewardConfigError, match="provider 'judge' needs the variable REWARDS_TEST_KEY"):
            worker.stage.open()
    secret = "sk-live-7f3a9"  # noqa: S105  # what must not be seen
    variables = {"REWARDS_TEST_KEY": secret, "REWARDS_MACHINE_LACKS": "curl"}
    worker = pool(reward="judge", runtime_env={"env_vars": variables}, num_cpus=0.1)
    with pytest.raises(RewardConfigError, match="provider 'judge': the program curl is not installed") as caught:
        worker.stage.open()
    shown = [repr(worker), repr(worker.stage.evaluator), repr(caught.value), *map(str, caught.value.__notes__)]
    assert secret not in "\n".join([*shown, caplog.text])


def test_an_actor_without_the_catalogs_module_is_refused(pool: Pool) -> None:
    """The module is on the driver only."""
    worker = pool(runtime_env={"env_vars": {"PYTHONPATH": ""}}, num_cpus=0.1)
    worker.stage.evaluator._order = None  # type: ignore[attr-defined]  # prepared anew below, under another path
    selection = worker.stage.selection
    selection.catalog.path = "nowhere_to_be_found:catalog"
    worker.stage.evaluator.prepare(selection, None)
    with pytest.raises(RewardConfigError, match="'nowhere_to_be_found' can't be found: install its package"):
        worker.stage.open()


def test_a_cluster_without_room_is_said_with_what_it_has(pool: Pool) -> None:
    """Two actors of 100 cores each find no place in the time that they have."""
    worker = pool(min_actors=2, num_cpus=100, resources={"reward_gpu": 1}, start_timeout_s=1.0)
    with pytest.raises(RewardUnavailableError, match=r"0 of 2 .* CPU 100, reward_gpu 1; the cluster has 1 node; CPU "):
        worker.score(batch([{}]))


@pytest.mark.slow
def test_opening_and_closing_twice_is_no_error(pool: Pool, tmp_path: Path) -> None:
    """Each actor checks its machine, opens and closes its providers once, in one thread; a worker may be used again."""
    worker = pool(
        reward="managed", min_actors=2, num_cpus=0.1, runtime_env={"env_vars": {"REWARDS_FOLDER": str(tmp_path)}}
    )
    worker.stage.open()
    worker.stage.open()
    worker.score(batch([{}] * 8))
    worker.close()
    worker.close()
    lives = [[line.split()[0] for line in each.read_text().splitlines()] for each in tmp_path.iterdir()]
    assert lives == [["checked", "opened", "closed"]] * 2
    worker.score(batch([{}]))
    assert len(list(tmp_path.iterdir())) == 4


def test_a_provider_that_fails_to_close_is_an_error(pool: Pool) -> None:
    """It is raised when the worker is closed, with the actor named; the worker is closed all the same."""
    worker = pool(reward="managed", num_cpus=0.1, runtime_env={"env_vars": {"REWARDS_CLOSE_FAILS": "1"}})
    worker.stage.open()
    with pytest.raises(RewardConfigError.__base__ or Exception, match="the file can't be closed") as caught:
        worker.close()
    assert any("actor 1" in note for note in caught.value.__notes__)
    worker.close()


def test_selections_that_no_actor_can_resolve_are_refused(written: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalog object, a catalog file and a rank-local provider, before any Ray is there."""
    with pytest.raises(RewardConfigError, match="passed as an object: actors resolve it themselves"):
        RewardWorker(catalog={"mine": ScriptedProvider().spec()}, reward="mine", group_size=1, evaluator=RayEvaluator())
    file = written("rewards.py", (Path(__file__).parent / "actor_rewards.py").read_text(encoding="utf-8"))
    monkeypatch.chdir(file.parent)
    with pytest.raises(RewardConfigError, match=r"the catalog is a file \(rewards\.py\)"):
        RewardWorker(catalog="rewards.py:catalog", reward="scripted", group_size=1, evaluator=RayEvaluator())


def test_a_rank_local_provider_is_refused(ray_environment: dict[str, str]) -> None:
    """Its latents stay on their rank."""
    with pytest.raises(RewardConfigError, match="provider 'local' is rank-local"):
        RewardWorker(catalog="actor_rewards:catalog", reward="local", group_size=1, evaluator=RayEvaluator())


def test_settings_are_refused_all_at_once() -> None:
    """Every one that is wrong is named; values that may be secret are not shown."""
    wrong: dict[str, Any] = {
        "address": "ray://head:10001", "min_actors": 4, "max_actors": 2, "num_cpus": -1, "resources": {"gpu": 0},
        "runtime_env": "sk-live-7f3a9", "start_timeout_s": 0, "group_timeout_s": float("nan"), "idle_s": True,
        "redispatches": -1, "namespace": "",
    }  # fmt: skip
    with pytest.raises(RewardConfigError, match="settings of the Ray backend") as caught:
        RayEvaluator(**wrong)
    text = str(caught.value)
    assert "sk-live" not in text
    for name in ("address", "num_cpus", "resources['gpu']", "runtime_env", "start_timeout_s", "group_timeout_s"):
        assert f"  {name}: " in text
    for name in ("idle_s", "redispatches", "namespace"):
        assert f"  {name}: " in text
    with pytest.raises(RewardConfigError, match="max_actors: expected at least min_actors = 4, got 2"):
        RayEvaluator(min_actors=4, max_actors=2)


def test_an_evaluator_serves_one_selection_while_it_is_open(pool: Pool) -> None:
    """A second worker on the same evaluator would run the first one's providers."""
    worker = pool(num_cpus=0.1)
    worker.stage.open()
    with pytest.raises(RewardConfigError, match="open for other providers: give each worker its own"):
        RewardWorker(catalog="actor_rewards:catalog", reward="tenth", group_size=2, evaluator=worker.stage.evaluator)
