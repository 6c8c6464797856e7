# SPDX-License-Identifier: Apache-2.0
"""Every example runs as its docstring says, and gives the numbers that one works out by hand."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from math import sqrt
from pathlib import Path
from typing import Any

import pytest

REWARDS = ["length_penalty", "mixed_tasks"]


def documented(file: Path) -> list[str]:
    """The one command line of an example's docstring as it is read in the file, without the name of the program."""
    text = file.read_text(encoding="utf-8").split('"""')[1]
    (found,) = re.findall(r"^ {4}posttrain ((?:.*\\\n)*.*)", text, re.MULTILINE)
    return shlex.split(found.replace("\\\n", " "))


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSONL file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def judged_right(row: dict[str, Any]) -> bool:
    """The verdict on a word problem, by the few notations that its maker writes behind the marker."""
    found = re.search(r"#### \**([0-9,-]+)(?:\.0*)?\**$", row["completion"])
    return found is not None and found[1].replace(",", "") == row["reference"].split("#### ")[1].replace(",", "")


@pytest.fixture
def example(command: Callable[..., Any], repository: Path, tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Run an example as its docstring says, from the root of the checkout; gives the scored rows."""

    def run(name: str) -> list[dict[str, Any]]:
        arguments = documented(repository / "examples/rewards" / f"{name}.py")
        done = command(*arguments, "--out", tmp_path / "out.jsonl", cwd=repository)
        assert (done.returncode, done.stderr) == (0, "")
        return rows_of(tmp_path / "out.jsonl")

    return run


def test_every_example_is_tested(repository: Path) -> None:
    """A new example of a reward has to be listed here."""
    assert sorted(each.stem for each in (repository / "examples/rewards").glob("*.py")) == REWARDS


@pytest.mark.parametrize("name", REWARDS)
def test_the_documented_command_works_in_a_shell(name: str, repository: Path, shell: Callable[..., Any]) -> None:
    """Pasted as it is, from the root of the checkout, the command scores and writes no file."""
    done = shell(*documented(repository / "examples/rewards" / f"{name}.py"), cwd=repository)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("groups ")


def test_the_length_penalty(example: Callable[..., list[dict[str, Any]]], repository: Path, tmp_path: Path) -> None:
    """A right answer pays 1, and each token above 24 costs a 24th of a half, up to 48."""
    rollouts = rows_of(repository / "examples/rollouts/word_problems.jsonl")
    scored = example("length_penalty")
    for row, rollout in zip(scored, rollouts, strict=True):
        tokens = rollout["completion_token_count"]
        overlong = 0.0 if tokens <= 24 else (tokens - 24) / 24
        right = float(judged_right(rollout))
        # The weight is a power of two, so the product is exact.
        assert row["reward"] == {"gsm8k": right, "overlong": overlong, "final": right - 0.5 * overlong}
    # The longest completion has 29 tokens: 5/24 of the way.
    assert max(row["reward"]["overlong"] for row in scored) == 5 / 24
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    counts = [rollout["completion_token_count"] for rollout in rollouts]
    assert metrics["train/reward_provider/brevity/tokens"] == sum(counts) / 384
    assert metrics["train/reward_provider/brevity/longest"] == 29.0
    assert metrics["train/reward_provider/brevity/cut"] == sum(each["finish_reason"] == "length" for each in rollouts)


def test_the_length_penalty_needs_token_counts(
    command: Callable[..., Any], repository: Path, written: Callable[..., Path]
) -> None:
    """A rollout that recorded no count is an error, not a completion without cost."""
    path = written("rows.jsonl", [{"group_id": "g", "completion": "x"}])
    catalog = f"{repository}/examples/rewards/length_penalty.py:catalog"
    done = command("score", path, "--group-size", "1", "--catalog", catalog, "--reward", "brevity")
    assert done.returncode == 3
    assert "the rollout has to record completion_token_count" in done.stderr


def test_the_mixed_tasks(example: Callable[..., list[dict[str, Any]]], tmp_path: Path) -> None:
    """Each group is scored by its own task's scorer, under one term."""
    # 42 is right with words behind it, 17 is not, and without the marker nothing is. Of the countdowns for 26,
    # 3*7+5 and 5+7×3 make it, (3+5)*7 is 56, and the last is no answer.
    values = [1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0]
    scored = example("mixed_tasks")
    assert [row["reward"] for row in scored] == [{"task": value, "final": value} for value in values]
    # In each group two of four: four squares of 1/2 over 3 is a sample variance of 1/3.
    advantage = 0.5 / (sqrt(1 / 3) + 1e-4)
    assert [row["advantage"] for row in scored] == [
        pytest.approx(advantage if value else -advantage, rel=1e-15) for value in values
    ]
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["train/reward_provider/mixed/gsm8k.score"] == 0.5
    assert metrics["train/reward_provider/mixed/countdown.score"] == 0.5
    assert metrics["train/completion/truncated_fraction"] == 1 / 8


def test_a_task_that_nobody_scores(command: Callable[..., Any], repository: Path, written: Callable[..., Path]) -> None:
    """A reference of no known task is an error that names the group."""
    path = written("rows.jsonl", [{"group_id": "g", "completion": "x", "reference": ["x"]}])
    catalog = f"{repository}/examples/rewards/mixed_tasks.py:catalog"
    done = command("score", path, "--group-size", "1", "--catalog", catalog, "--reward", "mixed")
    assert done.returncode == 3
    assert "provider 'mixed', group 'g': the reference is neither an answer text nor a countdown" in done.stderr


def test_the_word_problems_are_made_alike(repository: Path) -> None:
    """The script writes the shipped file, byte for byte."""
    folder = repository / "examples/rollouts"
    done = subprocess.run(
        [sys.executable, "-I", str(folder / "make_word_problems.py")], capture_output=True, timeout=60, check=True
    )
    assert done.stdout == (folder / "word_problems.jsonl").read_bytes()


def test_the_word_problems_are_judged_right(command: Callable[..., Any], repository: Path, tmp_path: Path) -> None:
    """`gsm8k` agrees on every candidate with a reading of the few notations that the script writes."""
    path = repository / "examples/rollouts/word_problems.jsonl"
    done = command("score", path, "--reward", "gsm8k", "--group-size", "8", "--out", "out.jsonl")
    assert done.returncode == 0
    rollouts, scored = rows_of(path), rows_of(tmp_path / "out.jsonl")
    assert [row["reward"]["gsm8k"] == 1.0 for row in scored] == [judged_right(rollout) for rollout in rollouts]
    # Not all alike: some of every kind are there.
    assert 100 < sum(row["reward"]["gsm8k"] for row in scored) < 300
