# SPDX-License-Identifier: Apache-2.0
"""What `posttrain score` writes and prints, against numbers that are worked out by hand."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from math import sqrt
from pathlib import Path
from typing import Any

import pytest

import posttrain
from posttrain.rewards import RewardWorker

# Of the rewards 1, 0, 1, 1: mean 3/4; squares 3, so the population variance is 3/4 - 9/16 = 3/16.
MEAN, STD = 0.75, sqrt(3 / 16)
# Of the rewards 1, 0: the deviations are 1/2 and -1/2, the sample variance is (1/4 + 1/4) / 1.
NORM = 0.5 / (sqrt(0.5) + 1e-4)

GSM8K = ("--reward", "gsm8k", "--group-size", "2")


def test_rows_hold_terms_final_and_advantage(
    command: Callable[..., Any], four: Path, scored: Callable[..., Any], tmp_path: Path
) -> None:
    """A row per candidate, in the order of the file, with exactly these fields."""
    assert command("score", four, *GSM8K, "--out", "out.jsonl").returncode == 0
    assert scored(tmp_path / "out.jsonl") == [
        {"trajectory_id": "a0", "group_id": "a", "reward": {"gsm8k": 1.0, "final": 1.0}, "advantage": NORM},
        {"trajectory_id": "a1", "group_id": "a", "reward": {"gsm8k": 0.0, "final": 0.0}, "advantage": -NORM},
        {"trajectory_id": "b0", "group_id": "b", "reward": {"gsm8k": 1.0, "final": 1.0}, "advantage": 0.0},
        {"trajectory_id": "b1", "group_id": "b", "reward": {"gsm8k": 1.0, "final": 1.0}, "advantage": 0.0},
    ]


def test_metrics_are_the_flat_report(command: Callable[..., Any], four: Path, tmp_path: Path) -> None:
    """`metrics.json` has each metric of the report under the namespace, and nothing else."""
    assert command("score", four, *GSM8K, "--out", "out.jsonl", "--namespace", "val").returncode == 0
    assert json.loads((tmp_path / "metrics.json").read_text()) == {
        "val/reward/final/mean": MEAN,
        "val/reward/final/std": STD,
        "val/reward/final/min": 0.0,
        "val/reward/final/max": 1.0,
        "val/reward/gsm8k/mean": MEAN,
        "val/group/count": 2.0,
        "val/group/dropped_count": 0.0,
        "val/group/zero_spread_fraction": 0.5,
        "val/completion/truncated_fraction": 0.25,
        "val/completion/unknown_finish_fraction": 0.5,
        "val/reward_provider/gsm8k/sample_count": 4.0,
    }


def test_the_identity_lies_beside_the_rows(command: Callable[..., Any], four: Path, tmp_path: Path) -> None:
    """One side file records what made the scores: versions, stage, rollouts, columns and grouping."""
    done = command("score", four, *GSM8K, "--out", "out.jsonl", "--group-by", "reference", "--weight", "gsm8k=2")
    assert done.returncode == 0
    record = json.loads((tmp_path / "out.identity.json").read_text())
    stage = RewardWorker(reward="gsm8k", group_size=2, weights={"gsm8k": 2.0}).stage_identity.to_json()
    text = json.dumps(stage, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    data = four.read_bytes()
    assert record == {
        "format": 1,
        "posttrain": posttrain.__version__,
        "stage_sha256": hashlib.sha256(text.encode()).hexdigest(),
        "stage": json.loads(text),
        "namespace": "train",
        "rollouts": {"name": "four.jsonl", "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()},
        "columns": {
            name: name
            for name in (
                "group_id",
                "trajectory_id",
                "prompt",
                "completion",
                "completions",
                "reference",
                "finish_reason",
                "completion_token_count",
            )
        },
        "grouping": 'columns:["reference"]',
    }
    assert record["stage"]["weights"] == {"gsm8k": 2.0}


def test_only_the_table_and_one_line_are_printed(command: Callable[..., Any], four: Path) -> None:
    """When all is well, standard output has a fact a line and where the files are; standard error has nothing."""
    done = command("score", four, *GSM8K, "--out", "out.jsonl")
    assert done.stderr == ""
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    assert lines[:7] == [
        "groups          2",
        "candidates      4",
        "reward          0.7500 ± 0.4330, 0 to 1",
        "  gsm8k         0.7500",
        "zero spread     50.0% of the scored groups",
        "truncated       25.0%",
        "unknown finish  50.0%",
    ]
    assert re.fullmatch(r"slowest         \d\.\d\d s in gsm8k, at most \d+\.\d ms in [ab]", lines[7])
    assert re.fullmatch(r"done in \d+\.\d s, written to out\.jsonl, metrics\.json, out\.identity\.json", lines[8])
    assert len(lines) == 9


@pytest.mark.parametrize(
    ("estimator", "advantages"),
    [
        ("group_mean", [0.5, -0.5, 0.0, 0.0]),
        ("leave_one_out", [1.0, -1.0, 0.0, 0.0]),
        # The spread of the whole file, not of the group: the second pass has to know it.
        ("group_mean_batch_std", [0.5 / (STD + 1e-4), -0.5 / (STD + 1e-4), 0.0, 0.0]),
    ],
)
def test_each_estimator(
    command: Callable[..., Any],
    four: Path,
    scored: Callable[..., Any],
    tmp_path: Path,
    estimator: str,
    advantages: list[float],
) -> None:
    """The advantages are the formula's, to the bit; rewards are the same under each."""
    assert command("score", four, *GSM8K, "--out", "out.jsonl", "--estimator", estimator).returncode == 0
    rows = scored(tmp_path / "out.jsonl")
    assert [row["advantage"] for row in rows] == advantages
    assert [row["reward"]["final"] for row in rows] == [1.0, 0.0, 1.0, 1.0]
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "four.jsonl",
        "metrics.json",
        "out.identity.json",
        "out.jsonl",
    ]


def test_several_rewards_are_weighed(
    command: Callable[..., Any], four: Path, scored: Callable[..., Any], tmp_path: Path
) -> None:
    """Each term is written raw; `final` is their weighted sum, where a term without a weight counts once."""
    done = command(
        "score", four, *GSM8K, "--reward", "nonempty", "--reward", "constant", "--out", "out.jsonl",
        "--weight", "nonempty=-0.5", "--weight", "constant=0",
    )  # fmt: skip
    assert done.returncode == 0
    rows = scored(tmp_path / "out.jsonl")
    assert rows[0]["reward"] == {"gsm8k": 1.0, "nonempty": 1.0, "constant": 1.0, "final": 0.5}
    assert rows[1]["reward"] == {"gsm8k": 0.0, "nonempty": 1.0, "constant": 1.0, "final": -0.5}
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    # (0.5 - 0.5 + 0.5 + 0.5) / 4
    assert metrics["train/reward/final/mean"] == 0.25
    assert metrics["train/reward/nonempty/mean"] == 1.0
    assert re.search(r"^  constant +1\.0000", done.stdout, re.MULTILINE)


def test_without_out_nothing_is_written(command: Callable[..., Any], four: Path, tmp_path: Path) -> None:
    """A look at the scores leaves no file behind."""
    done = command("score", four, *GSM8K)
    assert done.returncode == 0
    assert re.fullmatch(r"done in \d+\.\d s", done.stdout.splitlines()[-1])
    assert [each.name for each in tmp_path.iterdir()] == ["four.jsonl"]


def test_metrics_alone(command: Callable[..., Any], four: Path, tmp_path: Path) -> None:
    """`--metrics` without `--out` writes that one file, in a folder that it makes."""
    done = command("score", four, *GSM8K, "--metrics", "deep/er/m.json")
    assert done.returncode == 0
    assert done.stdout.rstrip().endswith("written to deep/er/m.json")
    assert json.loads((tmp_path / "deep/er/m.json").read_text())["train/reward/final/mean"] == MEAN
    assert sorted(each.name for each in tmp_path.iterdir()) == ["deep", "four.jsonl"]


def test_out_and_metrics_in_missing_folders(command: Callable[..., Any], four: Path, tmp_path: Path) -> None:
    """The folders of the outputs are made; a relative path counts from the working directory."""
    done = command("score", four, *GSM8K, "--out", "a/b/out.jsonl", "--metrics", "c/m.json")
    assert done.returncode == 0
    files = {each.relative_to(tmp_path).as_posix() for each in tmp_path.rglob("*") if each.is_file()}
    assert files == {"four.jsonl", "a/b/out.jsonl", "a/b/out.identity.json", "c/m.json"}


def test_an_output_that_is_there_is_replaced(command: Callable[..., Any], four: Path, tmp_path: Path) -> None:
    """A finished file of before gives way; a symbolic link stays one, and the file behind it is written."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real/out.jsonl").write_text("old\n")
    (tmp_path / "out.jsonl").symlink_to("real/out.jsonl")
    assert command("score", four, *GSM8K, "--out", "out.jsonl").returncode == 0
    assert (tmp_path / "out.jsonl").is_symlink()
    assert (tmp_path / "real/out.jsonl").read_text().count("\n") == 4
    assert sorted(each.name for each in (tmp_path / "real").iterdir()) == ["out.jsonl"]


def test_outputs_can_be_read_as_the_umask_says(command: Callable[..., Any], four: Path, tmp_path: Path) -> None:
    """Scores, metrics and identity are ordinary files, not private ones."""
    assert command("score", four, *GSM8K, "--out", "out.jsonl").returncode == 0
    probe = tmp_path / "probe"
    probe.touch()
    modes = {(tmp_path / name).stat().st_mode for name in ("out.jsonl", "metrics.json", "out.identity.json")}
    assert modes == {probe.stat().st_mode}


def test_a_run_is_the_same_every_time(command: Callable[..., Any], four: Path, tmp_path: Path) -> None:
    """Rows, metrics and identity of two runs are equal to the byte."""
    names = ("out.jsonl", "metrics.json", "out.identity.json")
    for folder in ("one", "two"):
        assert command("score", four, *GSM8K, "--out", f"{folder}/out.jsonl").returncode == 0
    assert all((tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes() for name in names)


@pytest.mark.parametrize("text", ["[/b]", "[bold]x", ":smile:", "1.5", "日本語", "a b"])
def test_ids_are_printed_as_they_are(command: Callable[..., Any], written: Callable[..., Path], text: str) -> None:
    """An id that looks like markup, an emoji code or a number comes out unchanged, and breaks nothing."""
    path = written("odd.jsonl", [{"group_id": text, "trajectory_id": "t", "completion": "x"}])
    done = command("score", path, "--reward", "constant", "--group-size", "1")
    assert done.returncode == 0
    assert f"ms in {text}" in done.stdout


def test_an_id_can_not_command_the_terminal(command: Callable[..., Any], written: Callable[..., Path]) -> None:
    """A control character in an id is spelled out."""
    path = written("odd.jsonl", [{"group_id": "a\x1b[2Jb", "trajectory_id": "t", "completion": "x"}])
    done = command("score", path, "--reward", "constant", "--group-size", "1")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert r"a\x1b[2Jb" in done.stdout
