# SPDX-License-Identifier: Apache-2.0
"""`posttrain compare`: on the terminal, as JSON, as a page, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CATALOG = """
from functools import partial
from posttrain.rewards import RewardProviderResult, RewardProviderSpec, map_candidates


def one(candidate, context):
    return RewardProviderResult({"last": float(candidate.completion[-1])})


def other(candidate, context):
    return RewardProviderResult({"last": 9 - float(candidate.completion[-1])})


def catalog():
    return {
        name: RewardProviderSpec(factory=partial(map_candidates, scorer), revision=name, terms=("last",))
        for name, scorer in (("one", one), ("other", other))
    }
"""


@pytest.fixture
def two_scores(command: Callable[..., Any], four: Path, written: Callable[..., Path]) -> Path:
    """The same four rollouts, scored by a provider and by its mirror image, in one.jsonl and other.jsonl."""
    written("mirror.py", CATALOG)
    for name in ("one", "other"):
        done = command(
            "score",
            four,
            "--catalog",
            "mirror.py:catalog",
            "--reward",
            name,
            "--group-size",
            "2",
            "--out",
            f"{name}.jsonl",
        )
        assert done.returncode == 0, done.stderr
    return four


def test_changes_are_told_on_the_terminal(command: Callable[..., Any], two_scores: Path) -> None:
    """What differs, each column, flips, and the groups that changed most."""
    done = command("compare", "one.jsonl", "other.jsonl")
    assert (done.returncode, done.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    # Last digits 4 5 7 7 and 5 4 2 2: means 5.75 and 3.25; absolute changes 1 1 5 5, mean 3.
    assert "final 5.75 3.25 -2.5 100.0% 3 5" in lines
    assert "last 5.75 3.25 -2.5 100.0% 3 5" in lines
    assert "providers.one.revision one –" in lines
    assert "rank flips 1 of 1 pairs that neither side ties, 100.0%" in lines
    assert "1 of 2 groups have one, 50.0%" in lines
    assert "another best 1 of 2 groups, 50.0%" in lines
    assert "sign flips 2 of 4 advantages, 50.0%" in lines
    # In group a both advantages turn from 0.707 to -0.707 (over 1e-4 more than the deviation); b has none.
    assert lines[-2:] == ["a 1.414 1 1 2", "b 0 5 0 0"]


def test_the_same_as_json(command: Callable[..., Any], two_scores: Path) -> None:
    """Every number of the comparison, and only as many groups as asked for."""
    found = json.loads(command("compare", "one.jsonl", "other.jsonl", "--json", "--top", "1").stdout)
    assert (found["a"], found["b"], found["same_rollouts"]) == ("one.jsonl", "other.jsonl", True)
    assert (found["rank_flips"], found["ordered_pairs"], found["sign_flips"], found["annotated"]) == (1, 1, 2, 4)
    assert [each["group_id"] for each in found["largest"]] == ["a"]
    assert [each["kind"] for each in found["changes"]] == ["final", "advantage", "term"]
    assert found["changes"][0] == {
        "kind": "final",
        "name": "final",
        "only": None,
        "candidates": 4,
        "mean_a": 5.75,
        "mean_b": 3.25,
        "change": -2.5,
        "changed": 1.0,
        "size": 3.0,
        "largest": 5.0,
    }


def test_a_page_with_both_scorings(command: Callable[..., Any], two_scores: Path, tmp_path: Path) -> None:
    """It is written beside what is told, with the texts of the rollouts."""
    done = command("compare", "one.jsonl", "other.jsonl", "--out", "c.html", "--rollouts", two_scores)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "written to c.html")
    assert (tmp_path / "c.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_file_compared_with_itself_has_not_changed(command: Callable[..., Any], two_scores: Path) -> None:
    """Nothing differs, nothing flips."""
    found = json.loads(command("compare", "one.jsonl", "one.jsonl", "--json").stdout)
    assert found["differences"] == []
    assert (found["rank_flips"], found["sign_flips"], found["another_top"]) == (0, 0, 0)
    assert all(each["changed"] == each["size"] == each["largest"] == 0.0 for each in found["changes"])


def test_ids_do_not_command_the_terminal(command: Callable[..., Any], written: Callable[..., Path]) -> None:
    """Control characters are shown by their escapes."""
    rows = [{"trajectory_id": "t", "group_id": "\x1b[31mg", "reward": {"final": 1.0}, "advantage": 0.0}]
    path = written("s.jsonl", rows)
    output = command("compare", path, path).stdout
    assert "\x1b" not in output
    assert "\\x1b[31mg" in output


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("one.jsonl", "none.jsonl"), 2, "none.jsonl is not there"),
        (("one.jsonl", "four.jsonl"), 3, "four.jsonl"),
        (("one.jsonl", "else.jsonl"), 2, "these are scores of different rollouts"),
        (("one.jsonl", "other.jsonl", "--rollouts", "four.jsonl"), 2, "give --out too"),
        (("one.jsonl", "other.jsonl", "--rollouts", "else.r.jsonl", "--out", "c.html"), 2, "is not what one.jsonl"),
    ],
)
def test_what_can_not_be_compared_is_one_message(
    command: Callable[..., Any],
    two_scores: Path,
    written: Callable[..., Path],
    arguments: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    """With the exit code of its kind."""
    rollouts = written(
        "else.r.jsonl", [{"group_id": "a", "trajectory_id": f"a{at}", "completion": "1"} for at in (0, 1)]
    )
    command("score", rollouts, "--reward", "nonempty", "--group-size", "2", "--out", "else.jsonl")
    done = command("compare", *arguments)
    assert done.returncode == code
    assert message in done.stderr
    assert done.stdout == ""


def test_force_compares_other_rollouts(
    command: Callable[..., Any], two_scores: Path, written: Callable[..., Path]
) -> None:
    """Then candidates are paired by their ids, and what only one side has is told."""
    rollouts = written(
        "else.r.jsonl", [{"group_id": "a", "trajectory_id": f"a{at}", "completion": "1"} for at in (0, 1)]
    )
    command("score", rollouts, "--reward", "nonempty", "--group-size", "2", "--out", "else.jsonl")
    done = command("compare", "one.jsonl", "else.jsonl", "--force")
    assert done.returncode == 0, done.stderr
    told = " ".join(done.stdout.split())
    assert "only in A 2 candidates: b0, b1" in told
    assert "the two are of different rollouts; candidates are paired by their ids" in told
