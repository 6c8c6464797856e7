# SPDX-License-Identifier: Apache-2.0
"""A run from its config to its report, and on from its checkpoints."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.runs import RLConfig
from posttrain.runs.directory import RecordedRun
from posttrain.training.online import Watch, run_online

Small = Callable[..., RLConfig]
Left = Callable[[Path], dict[str, Any]]
Shell = Callable[..., subprocess.CompletedProcess[str]]
Keys = Callable[..., list[str]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, keys: Keys) -> Path:
    """A run of four steps that nothing disturbed; read only."""
    from posttrain.runs import load_config

    folder = tmp_path_factory.mktemp("whole")
    return run_online(load_config(None, keys(folder, "a"))).path


def test_a_run_leaves_everything_behind(whole: Path) -> None:
    """Config, provenance, candidates of each step, metrics under the contract's names, validations, report."""
    run = RecordedRun(whole)
    assert run.steps == [1, 2, 3, 4]
    rows = list(run.candidates(3))
    assert [row.trajectory_id.rpartition("/")[2] for row in rows] == ["0", "1", "2", "3"] * 2
    assert all(row.prompt and row.reference and row.row_id and row.finish_reason for row in rows)
    assert all(row.reward["final"] == row.reward["close"] for row in rows)
    metrics = run.metrics()
    assert sorted(metrics) == [0, 1, 2, 3, 4]
    assert {"val/reward/final/mean", "val/reward/close/best_of_2"} <= metrics[0].keys()
    assert {"train/reward/final/mean", "train/group/zero_spread_fraction", "trainer/loss"} <= metrics[1].keys()
    assert "val/reward/final/mean" not in metrics[1]
    assert metrics[2]["train/group/count"] == 2.0
    mean = sum(row.reward["final"] for row in rows) / 8
    assert metrics[3]["train/reward/final/mean"] == pytest.approx(mean, abs=1e-12)
    assert [each.name for each in sorted((whole / "validation").iterdir())] == [
        *("step-00000000", "step-00000002", "step-00000004")
    ]
    assert (whole / "report.html").stat().st_size > 50_000
    assert (whole / "scored" / "step-00000001.jsonl").stat().st_mode & 0o777 == 0o600
    state = run.state
    assert state is not None
    assert state.step == 4
    assert run.provenance.data["rows"]["count"] == 900


def test_a_checkpoint_says_what_it_is(whole: Path) -> None:
    """The latest two are there, with the stage's identity and the place in the data."""
    folders = sorted(each.name for each in (whole / "checkpoints").glob("checkpoint-*"))
    assert folders == ["checkpoint-2", "checkpoint-4"]
    marker = json.loads((whole / "checkpoints" / "checkpoint-4" / "posttrain.json").read_text())
    state = RecordedRun(whole).state
    assert state is not None
    assert marker["stage_sha256"] == state.stage_sha256
    assert (marker["step"], marker["batches"], marker["processes"]) == (4, 4, 1)
    # Four steps of two prompts of 900 rows.
    assert (marker["data"]["epoch"], marker["data"]["position"]) == (0, 8)


def test_the_prompts_are_those_of_the_env(whole: Path) -> None:
    """Step n trains on the n-th batch that the run's `Env` draws."""
    from posttrain.data import Env, open_rows

    env = Env(open_rows("posttrain.training.tiny.addition:training_rows", source="function"))
    for step, batch in zip((1, 2, 3, 4), env.batches(2, 4), strict=False):
        rows = list(RecordedRun(whole).candidates(step))
        assert [row.row_id for row in rows[::4]] == [each.row_id for each in batch.observations]
        assert [row.prompt for row in rows[::4]] == [each.prompt for each in batch.observations]


def test_the_watch_is_told(small: Small) -> None:
    """Of preflight, the warm start, each step and each validation."""
    told: list[Any] = []
    watch = Watch(
        checked=lambda report: told.append(report.verdict),
        warmed=lambda step, steps: told.append(("warm", step, steps)),
        stepped=lambda step, steps, _: told.append(("step", step, steps)),
        validated=lambda step, _: told.append(("val", step)),
    )
    outcome = run_online(small("a", "rl.grpo.steps=2", "rl.policy.warm_start_steps=1"), watch=watch)
    assert told == ["ok", ("warm", 1, 1), ("val", 0), ("step", 1, 2), ("val", 2), ("step", 2, 2)]
    assert outcome.before is not None
    assert outcome.after is not None
    assert outcome.steps == 2


@pytest.mark.slow
def test_a_killed_run_goes_on_as_if_it_had_not_been(
    whole: Path, tmp_path: Path, shell: Shell, keys: Keys, small: Small, left: Left
) -> None:
    """SIGKILL in the middle of a step behind a checkpoint: the same rows, metrics and files in the end."""
    done = shell("grpo", *keys(tmp_path, "a"), FAULT="kill@3", OMP_NUM_THREADS="1")
    assert done.returncode == -9
    outcome = run_online(small("a"), resume=True)
    assert left(outcome.path) == left(whole)
    assert outcome.path == tmp_path / "a"


def test_a_checkpoint_without_its_marker_counts_for_nothing(
    whole: Path, tmp_path: Path, small: Small, left: Left
) -> None:
    """As after a kill between the trainer's files and the marker: the one before is gone on from."""
    shutil.copytree(whole, tmp_path / "a")
    (tmp_path / "a" / "checkpoints" / "checkpoint-4" / "posttrain.json").unlink()
    run_online(small("a"), resume=True)
    assert left(tmp_path / "a") == left(whole)


def test_a_complete_run_is_only_reported_again(whole: Path, tmp_path: Path, small: Small, left: Left) -> None:
    """Nothing is trained, and nothing is recorded twice."""
    shutil.copytree(whole, tmp_path / "a")
    outcome = run_online(small("a"), resume=True)
    assert outcome.steps == 4
    assert left(tmp_path / "a") == left(whole)


def test_a_run_can_be_made_longer(whole: Path, tmp_path: Path, small: Small, left: Left) -> None:
    """With more steps it goes on; what was there stays."""
    shutil.copytree(whole, tmp_path / "a")
    outcome = run_online(small("a", "rl.grpo.steps=5"), resume=True)
    assert outcome.steps == 5
    before, after = left(whole), left(outcome.path)
    assert after["scored"].items() > before["scored"].items()
    assert after["metrics"][: len(before["metrics"])] == before["metrics"]
    ids = [row.group_id for row in RecordedRun(outcome.path).candidates()]
    assert len(set(ids)) == 10


def test_another_reward_is_not_gone_on_with(
    whole: Path, tmp_path: Path, small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The field that differs is told; naming what is recorded lets it go on, under a lineage."""
    shutil.copytree(whole, tmp_path / "a")
    monkeypatch.setenv("REVISION", "2")
    with pytest.raises(RewardConfigError, match=r'providers\[0\]\.revision: recorded "1", now "2"'):
        run_online(small("a", "rl.grpo.steps=5"), resume=True)
    state = RecordedRun(whole).state
    assert state is not None
    outcome = run_online(small("a", "rl.grpo.steps=5", f"rl.accept_identity={state.stage_sha256}"), resume=True)
    (ancestor,) = RecordedRun(outcome.path).provenance.lineage
    assert (ancestor.until_step, ancestor.stage_sha256) == (4, state.stage_sha256)


def test_other_rows_are_not_gone_on_with(whole: Path, tmp_path: Path, small: Small) -> None:
    """A checkpoint is a place in its own data."""
    shutil.copytree(whole, tmp_path / "a")
    with pytest.raises(RewardConfigError, match=r"rl\.data: seed was 0, now 1"):
        run_online(small("a", "rl.grpo.steps=5", "rl.data.seed=1"), resume=True)


def test_a_name_that_is_taken_is_refused(whole: Path, tmp_path: Path, small: Small) -> None:
    """Without --resume nothing that is there is touched."""
    shutil.copytree(whole, tmp_path / "a")
    with pytest.raises(RewardConfigError, match="is there already"):
        run_online(small("a"))


def test_a_policy_that_can_not_be_loaded_leaves_no_folder(tmp_path: Path, small: Small) -> None:
    """The name of the run is free for the next try."""
    with pytest.raises(RewardConfigError, match=r"rl\.policy\.model: .*nothing can't be loaded"):
        run_online(small("a", f"rl.policy.model={tmp_path}/nothing"))
    assert list(tmp_path.iterdir()) == []


def test_a_failing_provider_ends_the_run(tmp_path: Path, small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names provider and group; its request is kept; the steps before it are."""
    monkeypatch.setenv("FAULT", "raise@2")
    with pytest.raises(RewardContractError, match=r"provider 'close', group 'train/2/0-.*out of cheese") as caught:
        run_online(small("a"))
    kept = tmp_path / "a" / "failed-request-0.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert f"The request is kept in {kept}" in "".join(caught.value.__notes__)
    assert RecordedRun(tmp_path / "a").steps == [1]
    monkeypatch.delenv("FAULT")
    assert run_online(small("a"), resume=True).steps == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides",
    [
        ["rl.grpo.beta=0.1"],
        ["rl.policy.lora_rank=2", "rl.grpo.beta=0.1"],
        ["rl.grpo.num_iterations=2", "rl.grpo.completions_per_device=4", "rl.run.tensorboard=true"],
    ],
)
def test_other_settings_train_and_go_on(small: Small, left: Left, overrides: list[str]) -> None:
    """With a KL term, adapters, reused batches or other losses: two steps and two more are four."""
    quick = ["rl.validation.enabled=false", *overrides]
    straight = run_online(small("straight", *quick))
    run_online(small("parts", *quick, "rl.grpo.steps=2"))
    parts = run_online(small("parts", *quick), resume=True)
    assert left(parts.path) == left(straight.path)
