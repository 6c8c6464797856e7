# SPDX-License-Identifier: Apache-2.0
"""What `posttrain score` reads: both shapes of rows, compressed files, columns of any name, groups without ids."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

COUNT = ("--reward", "exact_match", "--group-size", "2", "--out", "out.jsonl")

QUESTIONS = [
    {"question": "1+1", "answer": "2", "text": "2", "why": "stop", "tokens": 1, "family": 1},
    {"question": "1+1", "answer": "2", "text": "3", "why": "length", "tokens": 9, "family": 1},
    {"question": "2+2", "answer": "4", "text": "5", "why": "stop", "tokens": 1, "family": 1},
    {"question": "2+2", "answer": "4", "text": "4", "why": None, "tokens": None, "family": 1},
]
QUESTION_COLUMNS = (
    "--prompt-column", "question", "--reference-column", "answer", "--completion-column", "text",
    "--finish-reason-column", "why", "--completion-token-count-column", "tokens",
)  # fmt: skip


def finals(rows: list[dict[str, Any]]) -> list[float]:
    """The final rewards of a scored file."""
    return [row["reward"]["final"] for row in rows]


def test_a_row_per_group(
    command: Callable[..., Any], written: Callable[..., Path], scored: Callable[..., Any], tmp_path: Path
) -> None:
    """A row with a list of completions is a group; ids that it leaves out are minted from its place in the file."""
    path = written(
        "groups.jsonl",
        [
            {"completions": ["x", "y"], "reference": "x", "finish_reason": ["stop", "length"]},
            {"group_id": "named", "trajectory_id": ["n0", "n1"], "completions": ["y", "x"], "reference": "x"},
        ],
    )
    assert command("score", path, *COUNT).returncode == 0
    rows = scored(tmp_path / "out.jsonl")
    assert [(row["group_id"], row["trajectory_id"]) for row in rows] == [
        ("group-0", "group-0/0"),
        ("group-0", "group-0/1"),
        ("named", "n0"),
        ("named", "n1"),
    ]
    assert finals(rows) == [1.0, 0.0, 0.0, 1.0]
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["train/completion/truncated_fraction"] == 0.25
    assert metrics["train/completion/unknown_finish_fraction"] == 0.5


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".zst", zstandard.compress)])
def test_compressed_files_score_alike(
    command: Callable[..., Any],
    four: Path,
    written: Callable[..., Path],
    tmp_path: Path,
    suffix: str,
    compress: Callable[[bytes], bytes],
) -> None:
    """A file that is compressed, told by its suffix, gives the rows and metrics of the plain one."""
    packed = written(f"four.jsonl{suffix}", compress(four.read_bytes()))
    for path, folder in ((four, "plain"), (packed, "packed")):
        options = ("--reward", "gsm8k", "--group-size", "2", "--out", f"{folder}/out.jsonl")
        assert command("score", path, *options).returncode == 0
    for name in ("out.jsonl", "metrics.json"):
        assert (tmp_path / "plain" / name).read_bytes() == (tmp_path / "packed" / name).read_bytes()


@pytest.mark.parametrize(
    ("group_by", "recorded"),
    [
        ("question", 'columns:["question"]'),
        ("question,family", 'columns:["question", "family"]'),
        ("consecutive:2", "consecutive:2"),
    ],
)
def test_groups_without_ids(
    command: Callable[..., Any],
    written: Callable[..., Path],
    scored: Callable[..., Any],
    tmp_path: Path,
    group_by: str,
    recorded: str,
) -> None:
    """Rows with equal columns, or every N rows, are a group with minted ids; the rule is recorded."""
    path = written("questions.jsonl", QUESTIONS)
    done = command("score", path, *COUNT, *QUESTION_COLUMNS, "--group-by", group_by)
    assert done.returncode == 0, done.stderr
    rows = scored(tmp_path / "out.jsonl")
    assert [row["trajectory_id"] for row in rows] == ["group-0/0", "group-0/1", "group-1/0", "group-1/1"]
    assert finals(rows) == [1.0, 0.0, 0.0, 1.0]
    assert json.loads((tmp_path / "out.identity.json").read_text())["grouping"] == recorded
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["train/completion/truncated_fraction"] == 0.25
    assert metrics["train/completion/unknown_finish_fraction"] == 0.25


def test_a_wrong_grouping_is_refused(command: Callable[..., Any], written: Callable[..., Path], tmp_path: Path) -> None:
    """A run of rows whose prompts differ is no group: both rows are named, and nothing is written."""
    path = written("questions.jsonl", QUESTIONS[1:] + QUESTIONS[:1])
    done = command("score", path, *COUNT, *QUESTION_COLUMNS, "--group-by", "consecutive:2")
    assert done.returncode == 3
    assert "row 2: its 'question' is not that of row 1" in done.stderr
    assert done.stdout == ""
    assert [each.name for each in tmp_path.iterdir()] == ["questions.jsonl"]


def test_each_column_has_its_flag(
    command: Callable[..., Any], written: Callable[..., Path], scored: Callable[..., Any], tmp_path: Path
) -> None:
    """Every column can have another name, and the names are recorded."""
    names = {
        "group_id": "g",
        "trajectory_id": "t",
        "prompt": "p",
        "completion": "c",
        "completions": "cs",
        "reference": "r",
        "finish_reason": "f",
        "completion_token_count": "n",
    }
    path = written(
        "short.jsonl",
        [
            {"g": "one", "t": "a", "p": "?", "c": "x", "r": "x", "f": "length", "n": 1},
            {"g": "one", "t": "b", "p": "?", "c": "y", "r": "x", "f": "stop", "n": 2},
            {"g": "two", "t": ["c", "d"], "cs": ["x", "x"], "r": "x", "f": ["length", "stop"]},
        ],
    )
    flags = [text for role, name in names.items() for text in (f"--{role.replace('_', '-')}-column", name)]
    done = command("score", path, *COUNT, *flags)
    assert done.returncode == 0, done.stderr
    rows = scored(tmp_path / "out.jsonl")
    assert [(row["group_id"], row["trajectory_id"]) for row in rows] == [
        ("one", "a"),
        ("one", "b"),
        ("two", "c"),
        ("two", "d"),
    ]
    assert finals(rows) == [1.0, 0.0, 1.0, 1.0]
    assert json.loads((tmp_path / "metrics.json").read_text())["train/completion/truncated_fraction"] == 0.5
    assert json.loads((tmp_path / "out.identity.json").read_text())["columns"] == names


@pytest.mark.parametrize(
    ("missing", "flag", "near"),
    [
        ("group_id", "--group-id-column", "groupid"),
        ("completion", "--completion-column", "completio"),
        ("reference", "--reference-column", "referenc"),
    ],
)
def test_a_missing_column_is_refused(
    command: Callable[..., Any], written: Callable[..., Path], tmp_path: Path, missing: str, flag: str, near: str
) -> None:
    """The error has the column, the nearest that is there and the flag; nothing is printed and nothing written."""
    row = {"group_id": "g", "completion": "x", "reference": "x"}
    rows = [{near if name == missing else name: value for name, value in row.items()}] * 2
    done = command("score", written("rows.jsonl", rows), *COUNT)
    assert done.returncode == 3
    assert f"no column {missing!r}" in done.stderr
    assert f"did you mean {near!r}?" in done.stderr
    assert f"set {flag}" in done.stderr
    assert done.stdout == ""
    assert [each.name for each in tmp_path.iterdir()] == ["rows.jsonl"]


def test_a_column_that_no_provider_needs_may_be_missing(
    command: Callable[..., Any], written: Callable[..., Path]
) -> None:
    """`constant` needs neither prompt nor reference."""
    path = written("rows.jsonl", [{"group_id": "g", "completion": "x"}] * 2)
    assert command("score", path, "--reward", "constant", "--group-size", "2").returncode == 0


@pytest.mark.parametrize("content", ["", "\n\n", "  \n"])
def test_a_file_without_rows_is_refused(
    command: Callable[..., Any], written: Callable[..., Path], tmp_path: Path, content: str
) -> None:
    """Nothing to score is an error, with `--out` and without, and leaves nothing behind."""
    path = written("empty.jsonl", content)
    for options in (COUNT, COUNT[:4]):
        done = command("score", path, *options)
        assert done.returncode == 3
        assert done.stderr == f"posttrain: contract broken: {path} holds no rollouts\n"
        assert done.stdout == ""
        assert [each.name for each in tmp_path.iterdir()] == ["empty.jsonl"]


@pytest.mark.parametrize("options", [COUNT, COUNT[:4], (*COUNT[:4], "--explain", "t")])
def test_only_a_regular_file_is_scored(command: Callable[..., Any], tmp_path: Path, options: tuple[str, ...]) -> None:
    """A folder and a pipe are refused by name before they are opened, so that nothing waits for a writer."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        done = command("score", name, *options)
        assert done.returncode == 2
        assert f"{name} is no regular file" in done.stderr
        assert done.stdout == ""
    assert sorted(each.name for each in tmp_path.iterdir()) == ["folder", "pipe"]


def test_groups_that_return_later_are_refused(command: Callable[..., Any], written: Callable[..., Path]) -> None:
    """The error says by which column to sort."""
    rows = [{"group_id": group, "completion": "x", "reference": "x"} for group in "aabba"]
    done = command("score", written("rows.jsonl", rows), *COUNT)
    assert done.returncode == 3
    assert "group 'a' began in row 1 and was complete" in done.stderr
    assert "sort the file by 'group_id'" in done.stderr
