# SPDX-License-Identifier: Apache-2.0
"""The parts of a run by themselves: prompts by number, checkpoints, what is logged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.data import Env, EnvState, FunctionRows
from posttrain.errors import RewardContractError
from posttrain.training.online.checkpoints import Checkpoint, finish, latest, sweep
from posttrain.training.online.prompts import Prompts
from posttrain.training.online.recorder import named_metrics


def env(rows: int = 10, **settings: Any) -> Env:
    """Rows that are their own number."""
    return Env(FunctionRows(lambda: [{"prompt": str(at), "reference": {"n": at}} for at in range(rows)]), **settings)


def test_prompts_by_number_are_those_of_the_env() -> None:
    """In any order, over the ends of epochs, and through the table that the trainer reads."""
    drawn = [batch for batch, _ in zip(env().batches(4, 2), range(8), strict=False)]
    prompts = Prompts(env(), groups_per_batch=4, group_size=2)
    for number in (0, 1, 7, 3, 2, 7, 0):
        found = prompts.batch(number)
        assert [each.id for each in found.observations] == [each.id for each in drawn[number].observations]
        assert found.end == drawn[number].end
    table = prompts.table(8)
    assert len(table) == 32
    assert table.column_names == ["prompt", "reference", "row_id"]
    expected = drawn[5].observations[2]
    assert table[22] == {"prompt": expected.prompt, "reference": expected.reference, "row_id": expected.row_id}


def test_prompts_go_on_from_a_place_with_another_batch_size() -> None:
    """After two batches of four, batches of two begin at the ninth draw, whatever their number is."""
    first = list(zip(env().batches(4, 2), range(2), strict=False))
    rest = Prompts(env(), groups_per_batch=2, group_size=2, first=2, start=first[-1][0].end)
    one_by_one = zip(env().batches(1, 2), range(12), strict=False)
    wanted = [each.prompt for batch, _ in one_by_one for each in batch.observations]
    assert [each.prompt for number in (2, 3) for each in rest.batch(number).observations] == wanted[8:12]


def test_a_prompt_that_is_too_long_is_named_and_never_cut() -> None:
    """Every row of the batch that has too many tokens, with how many."""
    prompts = Prompts(
        env(12, shuffle=False), groups_per_batch=12, group_size=2, longest=1, count=lambda prompt: len(str(prompt))
    )
    with pytest.raises(RewardContractError, match=r"more than rl\.grpo\.max_prompt_length=1 tokens") as caught:
        prompts.batch(0)
    assert [line.rpartition(": ")[2] for line in str(caught.value).splitlines()[1:]] == ["2 tokens", "2 tokens"]


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Path]:
    """Makes the folder of a checkpoint as a trainer does, with a marker if it is to count."""

    def make(step: int, *, keep: int | None = 9) -> Path:
        path = tmp_path / f"checkpoint-{step}"
        path.mkdir()
        (path / "model.safetensors").write_bytes(b"weights")
        if keep is not None:
            state = EnvState(epoch=0, position=step, rows=10_000, seed=0, shuffle=True)
            found = Checkpoint(step=step, stage_sha256="ab", batches=step, data=state, processes=1)
            finish(tmp_path, found, keep=keep)
        return path

    return make


def test_only_a_checkpoint_with_its_marker_counts(made: Callable[..., Path], tmp_path: Path) -> None:
    """The latest by number, not by name; the half written one is swept away, other folders are left alone."""
    assert latest(tmp_path) is None
    made(90)
    made(100)
    half = made(110, keep=None)
    (tmp_path / "checkpoint-best").mkdir()
    found = latest(tmp_path)
    assert found is not None
    assert (found[0].step, found[1].name) == (100, "checkpoint-100")
    sweep(tmp_path)
    assert not half.exists()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["checkpoint-100", "checkpoint-90", "checkpoint-best"]


def test_old_checkpoints_go_when_a_new_one_counts(made: Callable[..., Path], tmp_path: Path) -> None:
    """Never before: until its marker is there, the one before is what a resume goes on from."""
    made(1)
    made(2)
    made(3, keep=None)
    assert latest(tmp_path) is not None
    assert len(list(tmp_path.iterdir())) == 3
    made(4, keep=1)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["checkpoint-3", "checkpoint-4"]


def test_what_is_logged_has_the_names_of_the_record() -> None:
    """The stage's as they are, the trainer's under its own name; what has no value is left out."""
    logs = {"loss": 0.5, "train/reward/final/mean": 1, "kl": float("nan"), "entropy": None, "epoch": 0.1, "x": "text"}
    assert named_metrics(3, logs) == {"trainer/loss": 0.5, "train/reward/final/mean": 1.0}
    assert named_metrics(3, {"train_runtime": 2.0, "train_loss": 0.1}) == {}


@pytest.mark.parametrize(("name", "value"), [("loss", float("nan")), ("grad_norm", float("inf"))])
def test_a_ruined_policy_ends_the_run(name: str, value: float) -> None:
    """A loss or a gradient that is not finite is no metric to be left out."""
    with pytest.raises(RewardContractError, match=f"the {name} of step 7 is {value}: the policy is ruined"):
        named_metrics(7, {"loss": 0.0, name: value})
