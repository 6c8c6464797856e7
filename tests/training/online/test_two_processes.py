# SPDX-License-Identifier: Apache-2.0
"""A run in two processes under torchrun: one folder, and one named error when either of them fails."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from execution.ranks.torchrun import torchrun
from posttrain.runs.directory import RecordedRun

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("rank_program.py")
BOUND_S = 15
Keys = Callable[..., list[str]]


def ran(folder: Path, keys: Keys, *overrides: str, **environment: str) -> tuple[list[str], int]:
    """The last words of each process, and the exit code of the launcher."""
    quick = ["rl.grpo.steps=2", "rl.validation.interval=1", f"rl.grpo.ranks_timeout_s={BOUND_S}", *overrides]
    done: subprocess.CompletedProcess[str] = torchrun(
        PROGRAM, str(folder), *keys(folder, "a", *quick), ranks=2, timeout_s=280, **environment
    )
    said = [(folder / f"rank-{rank}.txt").read_text(encoding="utf-8") for rank in range(2)]
    return said, done.returncode


def test_two_processes_make_one_run(tmp_path: Path, keys: Keys) -> None:
    """Three groups of four, of which the middle one straddles them; every candidate is recorded whole, once."""
    said, code = ran(tmp_path, keys, "rl.grpo.prompts_per_step=3")
    assert (code, [each.splitlines()[-1] for each in said]) == (0, ["exit 0", "exit 0"])
    run = RecordedRun(tmp_path / "a")
    assert run.steps == [1, 2]
    for step in (1, 2):
        rows = list(run.candidates(step))
        assert len({row.trajectory_id for row in rows}) == 12
        assert len({row.group_id for row in rows}) == 3
        assert all(row.prompt and row.reference and row.row_id for row in rows)
        finals = [row.reward["final"] for row in rows]
        assert run.metrics()[step]["train/reward/final/mean"] == pytest.approx(sum(finals) / 12, abs=1e-12)
    # A hundred held-out prompts, two completions each, half of them sampled by either process.
    lines = (tmp_path / "a" / "validation" / "step-00000002" / "scores.jsonl").read_text().splitlines()
    assert len(lines) == 200
    assert len(list((tmp_path / "a" / "checkpoints" / "checkpoint-2").glob("rng_state_*.pth"))) == 2
    assert (tmp_path / "a" / "report.html").is_file()


def test_a_reward_that_fails_in_one_process_ends_both(tmp_path: Path, keys: Keys) -> None:
    """The same error with the same exit code, naming provider, group and process; the step is not recorded."""
    said, code = ran(tmp_path, keys, FAULT="raise@2@1")
    assert code == 1
    for each in said:
        assert "provider 'close', group 'train/2/1-" in each
        assert "rank 1: " in each
        assert "out of cheese" in each
        assert each.splitlines()[-1] == "exit 3"
    assert RecordedRun(tmp_path / "a").steps == [1]


@pytest.mark.parametrize("fault", ["hang", "kill"])
def test_a_process_that_is_gone_ends_the_other_inside_the_bound(tmp_path: Path, keys: Keys, fault: str) -> None:
    """The one that is left names who did not come, and ends with the code of an outside failure."""
    said, code = ran(tmp_path, keys, FAULT=f"{fault}@1@1")
    assert code == 1
    assert f"rank 1 did not come to the step 'evaluate' within {BOUND_S} s: hung or dead" in said[0]
    assert said[0].splitlines()[-1] == "exit 4"
    assert RecordedRun(tmp_path / "a").steps == []
