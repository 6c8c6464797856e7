# SPDX-License-Identifier: Apache-2.0
"""`posttrain report`: where the file goes, what it is made of, and what is refused."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

GSM8K = ("--reward", "gsm8k", "--group-size", "2")


def _data(path: Path) -> dict[str, Any]:
    """What a report shows, read back out of its file."""
    text = path.read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(_script(text, "index"))))
    return found


def _groups(path: Path) -> list[dict[str, Any]]:
    """The opened groups of a report, in order."""
    text = path.read_text(encoding="utf-8")
    return [
        json.loads(zlib.decompress(base64.b64decode(_script(text, f"shard-{shard}")[offset : offset + length])))
        for shard, offset, length in _data(path)["at"]
    ]


def _script(text: str, name: str) -> str:
    found = re.search(rf'<script type="text/plain" id="{name}">([A-Za-z0-9+/=]*)</script>', text)
    assert found is not None
    return found[1]


def test_a_scored_file_becomes_a_page_beside_it(command: Callable[..., Any], four: Path, tmp_path: Path) -> None:
    """Columns are as recorded; the texts come from the rollouts; the name and the counts are told."""
    command("score", four, *GSM8K, "--out", "scored.jsonl")
    done = command("report", "scored.jsonl", "--rollouts", four)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("wrote scored.report.html: 0.1 MB, 2 groups with 4 candidates to read, in ")
    data = _data(tmp_path / "scored.report.html")
    assert (data["totals"]["mean"], data["totals"]["groups"], data["totals"]["unknown"]) == (0.75, 2, 2)
    assert data["table"]["columns"]["why"] == [None, "all right"]
    assert ["provider", "gsm8k, revision 1"] in [[label, text[:17]] for label, text in data["made"]]
    first, second = _groups(tmp_path / "scored.report.html")
    assert (first["texts"], first["reference"], first["finish"]) == (
        ["#### 4", "#### 5"],
        ["text", "4"],
        ["stop", "length"],
    )
    assert second["ids"] == ["b0", "b1"]


def test_a_run_becomes_a_page_in_it(command: Callable[..., Any], written: Callable[..., Path], tmp_path: Path) -> None:
    """A run needs nothing else."""
    row = {"trajectory_id": "t", "group_id": "g", "reward": {"x": 1.0, "final": 1.0}, "advantage": 0.0, "step": 4}
    written("run/scored/step-00000004.jsonl", [row])
    assert command("report", "run").stdout.startswith("wrote run/report.html: ")
    assert _data(tmp_path / "run" / "report.html")["steps"] == [4]


def test_columns_and_weights_can_be_given(
    command: Callable[..., Any], written: Callable[..., Path], tmp_path: Path
) -> None:
    """For a file of which nothing is recorded, the flags of `posttrain score` say what is where."""
    rows = [
        {"trajectory_id": f"r{at}", "group_id": "g", "reward": {"x": float(at), "final": at / 4}, "advantage": at - 0.5}
        for at in (0, 1)
    ]
    rollouts = [{"id": f"r{at}", "task": "t", "question": "q", "answer": f"text {at}"} for at in (0, 1)]
    done = command(
        "report",
        written("s.jsonl", rows),
        *("--rollouts", written("r.jsonl", rollouts), "--group-by", "task", "--trajectory-id-column", "id"),
        *("--prompt-column", "question", "--completion-column", "answer", "--weight", "x=0.25", "--out", "out.html"),
    )
    assert done.returncode == 0, done.stderr
    assert _data(tmp_path / "out.html")["terms"][0]["advantage"] == 1.0
    (group,) = _groups(tmp_path / "out.html")
    assert (group["prompt"], group["texts"]) == (["text", "q"], ["text 0", "text 1"])


def test_the_table_holds_as_many_candidates_as_asked_for(
    command: Callable[..., Any], written: Callable[..., Path], tmp_path: Path
) -> None:
    """The numbers are over all of them."""
    rows = [
        {"trajectory_id": f"{at}", "group_id": f"g{at}", "reward": {"final": 1.0}, "advantage": 0.0} for at in range(9)
    ]
    done = command("report", written("s.jsonl", rows), "--table-candidates", "4", "--out", "out.html")
    assert "4 groups with 4 candidates to read" in done.stdout
    data = _data(tmp_path / "out.html")
    assert (data["totals"]["groups"], len(data["table"]["columns"]["id"]), data["table"]["partial"]) == (9, 4, True)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("nothing.jsonl",), 2, "nothing.jsonl is not there"),
        (("scored.jsonl", "--prompt-column", "q"), 2, "give --rollouts too"),
        (("scored.jsonl", "--rollouts", "other.jsonl"), 2, "is not what scored.jsonl was scored from"),
        (("scored.jsonl", "--weight", "x"), 2, "--weight x: expected TERM=NUMBER"),
        (("scored.jsonl", "--weight", "x=nan"), 2, "weight of 'x': expected a finite number"),
        (("scored.jsonl", "--out", "none/out.html"), 2, "make it first"),
        (("other.jsonl",), 3, "row 1"),
    ],
)
def test_what_can_not_be_reported_is_one_message(
    command: Callable[..., Any],
    four: Path,
    written: Callable[..., Path],
    tmp_path: Path,
    arguments: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    """With the exit code of its kind, and without a file."""
    command("score", four, *GSM8K, "--out", "scored.jsonl")
    written("other.jsonl", [{"group_id": "a", "trajectory_id": "a0", "completion": "x"}])
    done = command("report", *arguments)
    assert done.returncode == code
    assert message in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.glob("**/*.html")) == []


def test_the_example_of_the_help_works(command: Callable[..., Any], four: Path) -> None:
    """The file in it is one that `posttrain score` writes."""
    command("score", four, *GSM8K, "--out", "scored.jsonl")
    assert "Example: posttrain report scored.jsonl --rollouts rollouts.jsonl" in " ".join(
        command("report", "-h").stdout.split()
    )
    four.rename(four.with_name("rollouts.jsonl"))
    assert command("report", "scored.jsonl", "--rollouts", "rollouts.jsonl").returncode == 0
