# SPDX-License-Identifier: Apache-2.0
"""`posttrain score` on dumps of other tools: an equal rule gives the tool's own reward column again."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# Every dump was scored by its tool with equality up to case and white space at the ends, which is this scorer's rule
# for texts without other white space.
RULE = ("--reward", "exact_match", "--group-size", "4", "--out", "out.jsonl")
TRL = ("--group-by", "consecutive:4", "--reference-column", "answer")


@pytest.fixture
def data(repository: Path) -> Path:
    """The folder of dumps that each tool wrote itself."""
    return repository / "tests" / "rollouts" / "importers" / "data"


def table(path: Path) -> list[dict[str, Any]]:
    """The rows of a Parquet table."""
    parquet: Any = importlib.import_module("pyarrow.parquet")
    rows: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    return rows


def json_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSONL file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def by_first(rows: list[dict[str, Any]], field: str) -> list[dict[str, Any]]:
    """Rows with equal values in a field together, in the order of the first of each."""
    values = [row[field] for row in rows]
    return sorted(rows, key=lambda row: values.index(row[field]))


@pytest.mark.parametrize("kind", ["text", "messages"])
def test_rewards_and_advantages_of_trl(
    command: Callable[..., Any], scored: Callable[..., Any], data: Path, tmp_path: Path, kind: str
) -> None:
    """The reward column comes again exactly, the advantages as far as TRL's single precision goes."""
    dump = data / f"trl-{kind}" / "completions_00001.parquet"
    done = command("score", dump, *RULE, *TRL)
    assert done.returncode == 0, done.stderr
    rows = scored(tmp_path / "out.jsonl")
    assert [row["reward"]["exact_match"] for row in rows] == [row["exact"] for row in table(dump)]
    # The peer computes in float32, whose relative spacing is 2**-23, about 1.2e-7; a few roundings add up.
    assert [row["advantage"] for row in rows] == pytest.approx([row["advantage"] for row in table(dump)], rel=1e-6)


@pytest.mark.parametrize("step", [1, 2])
def test_scores_of_verl(
    command: Callable[..., Any], scored: Callable[..., Any], data: Path, tmp_path: Path, step: int
) -> None:
    """The score of each row comes again, of a balanced batch too, whose groups lie apart."""
    dump = data / "verl" / f"{step}.jsonl"
    assert command("score", dump, *RULE).returncode == 0
    rows = scored(tmp_path / "out.jsonl")
    assert [row["reward"]["final"] for row in rows] == [row["score"] for row in by_first(json_rows(dump), "input")]


@pytest.mark.parametrize("name", ["results", "results-independent"])
def test_rewards_of_verifiers(
    command: Callable[..., Any], scored: Callable[..., Any], data: Path, tmp_path: Path, name: str
) -> None:
    """The reward of each rollout comes again under the id of its example."""
    dump = data / "verifiers" / f"{name}.jsonl"
    assert command("score", dump, *RULE, "--from", "verifiers").returncode == 0
    rows = scored(tmp_path / "out.jsonl")
    own = by_first(json_rows(dump), "example_id")
    assert [(row["group_id"], row["reward"]["final"]) for row in rows] == [
        (str(row["example_id"]), row["reward"]) for row in own
    ]


@pytest.mark.parametrize("kind", ["eval", "json"])
def test_scores_of_inspect_ai(
    command: Callable[..., Any], scored: Callable[..., Any], data: Path, tmp_path: Path, kind: str
) -> None:
    """The scorer's verdict on each sample comes again under the sample's id and epoch, from both kinds of log."""
    done = command("score", data / "inspect" / f"sums.{kind}", *RULE)
    assert done.returncode == 0, done.stderr
    samples = json.loads((data / "inspect" / "sums.json").read_text())["samples"]
    # `exact` of inspect_ai says C for correct and I for incorrect.
    own = {f"{each['id']}/{each['epoch']}": float(each["scores"]["exact"]["value"] == "C") for each in samples}
    assert {row["trajectory_id"]: row["reward"]["final"] for row in scored(tmp_path / "out.jsonl")} == own


def test_what_was_read_and_how_is_recorded(command: Callable[..., Any], data: Path, tmp_path: Path) -> None:
    """The identity names the tool, the fields and the grouping, also where the tool was recognised."""
    assert command("score", data / "verl" / "1.jsonl", *RULE).returncode == 0
    identity = json.loads((tmp_path / "out.identity.json").read_text())
    assert identity["dump"] == {"from": "verl", "render": None}
    assert identity["columns"]["completion"] == "output"
    assert identity["grouping"] == 'columns:["step", "input"]'


def test_a_file_of_ours_records_no_tool(
    command: Callable[..., Any], written: Callable[..., Path], tmp_path: Path
) -> None:
    """Rows of our own are read as ever."""
    path = written("rows.jsonl", [{"completions": ["a"] * 4, "reference": "a"}])
    assert command("score", path, *RULE).returncode == 0
    assert "dump" not in json.loads((tmp_path / "out.identity.json").read_text())


def test_jsonl_with_named_columns_is_not_guessed_at(command: Callable[..., Any], data: Path, tmp_path: Path) -> None:
    """Whoever names columns of a JSONL file gets them as named, and `--from` beside them still counts."""
    columns = ("--completion-column", "output", "--reference-column", "gts", "--group-by", "input")
    dump = data / "verl" / "2.jsonl"
    done = command("score", dump, *RULE, *columns)
    # As rows of ours, in the order of the file, the balanced batch has no two neighbours with one input.
    assert done.returncode == 3
    assert "group 'group-0': has 1 candidates" in done.stderr
    assert command("score", dump, *RULE, *columns, "--from", "verl").returncode == 0


def test_a_table_without_a_grouping_says_why(command: Callable[..., Any], data: Path) -> None:
    """A dump that can't form groups is bad usage, with the reason and the flag."""
    done = command("score", data / "trl-text" / "completions_00001.parquet", *RULE)
    assert (done.returncode, done.stdout) == (2, "")
    assert "the table has no group ids: say --group-by consecutive:N" in done.stderr


def test_a_repeated_prompt_is_a_group_too_long(
    command: Callable[..., Any], written: Callable[..., Path], data: Path
) -> None:
    """A prompt that a batch holds twice makes one group of two: its size is refused, and no reward is made up."""
    text = (data / "verl" / "1.jsonl").read_text()
    done = command("score", written("twice.jsonl", text + text), *RULE)
    assert done.returncode == 3
    assert "group-0" in done.stderr
    assert command("score", written("twice.jsonl", text + text), *RULE, "--group-by", "consecutive:4").returncode == 0


def test_render_needs_a_dump(command: Callable[..., Any], written: Callable[..., Path]) -> None:
    """Rows of ours hold one text each, so that there is nothing to render."""
    done = command(
        "score", written("rows.jsonl", [{"completions": ["a"] * 4, "reference": "a"}]), *RULE, "--render", "last"
    )
    assert done.returncode == 2
    assert "--render is for dumps of other tools" in done.stderr


def test_an_interrupted_run_over_gathered_rows_goes_on(
    command: Callable[..., Any], data: Path, tmp_path: Path, written: Callable[..., Path]
) -> None:
    """A run that broke off at the last group of a balanced batch is resumed to the very bytes of a whole run."""
    written(
        "rewards.py",
        """
import os
from functools import partial
from posttrain.rewards import RewardProviderResult, RewardProviderSpec, map_candidates


def score(candidate, context):
    if candidate.completion == "70" and os.path.exists("broken"):
        raise ValueError("broken")
    return RewardProviderResult({"length": float(len(candidate.completion))})


def catalog():
    return {"mine": RewardProviderSpec(factory=partial(map_candidates, score), revision="1", terms=("length",))}
""",
    )
    options = ("--reward", "mine", "--catalog", "rewards.py:catalog", "--group-size", "4")
    dump = data / "verl" / "2.jsonl"
    (tmp_path / "broken").touch()
    assert command("score", dump, *options, "--out", "out.jsonl").returncode == 3
    (tmp_path / "broken").unlink()
    assert command("score", dump, *options, "--out", "out.jsonl", "--resume").returncode == 0
    assert command("score", dump, *options, "--out", "whole.jsonl").returncode == 0
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
