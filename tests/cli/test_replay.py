# SPDX-License-Identifier: Apache-2.0
"""A failing request is kept privately, and `--replay` runs it again: to the same error, or to scores once mended."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

OPTIONS = ("--reward", "picky", "--catalog", "rewards.py:catalog", "--group-size", "2")
KEPT = "out.jsonl.failed-request.json"

PICKY = """
from functools import partial
from posttrain.rewards import RewardProviderResult, RewardProviderSpec, map_candidates


def score(candidate, context):
    first = context.reference["words"][0]
    value = {value}
    return RewardProviderResult({{"task": value}})


def catalog():
    return {{
        "picky": RewardProviderSpec(
            factory=partial(map_candidates, score), revision="1", terms=("task",), needs=("reference",)
        )
    }}
"""
BROKEN = PICKY.format(value="candidate.completion == first")
MENDED = PICKY.format(value="float(candidate.completion == first)")


@pytest.fixture
def failed(command: Callable[..., Any], written: Callable[..., Path]) -> Any:
    """A run whose second group was never reached, since the scorer gives a bool."""
    written("rewards.py", BROKEN)
    rows = [
        {
            "group_id": "g0",
            "trajectory_id": f"t{at}",
            "prompt": "not declared, so not kept",
            "completion": text,
            "reference": {"words": ["ja", 1, 1.0, None]},
            "finish_reason": "stop",
            "completion_token_count": at,
        }
        for at, text in enumerate(("ja", "nein"))
    ]
    return command("score", written("rows.jsonl", rows), *OPTIONS, "--out", "out.jsonl")


def test_the_request_is_kept_privately(failed: Any, tmp_path: Path) -> None:
    """The file is named in the error, is the owner's alone, and holds what the provider saw and said."""
    assert failed.returncode == 3
    last = failed.stderr.splitlines()[-1]
    assert last == f"The request is kept in {KEPT}: mend the provider, then posttrain score --replay {KEPT}"
    file = tmp_path / KEPT
    assert file.stat().st_mode & 0o777 == 0o600
    record = json.loads(file.read_text())
    assert record.pop("error") == failed.stderr.splitlines()[0].removeprefix("posttrain: contract broken: ") + "\n" + (
        "\n".join(failed.stderr.splitlines()[1:-1])
    )
    assert len(record.pop("sha256")) == 64
    assert record == {
        "format": 1,
        "catalog": "rewards.py:catalog",
        "provider": "picky",
        "revision": "1",
        "group_id": "g0",
        "candidates": [
            {"trajectory_id": "t0", "completion": "ja", "completion_token_count": 0, "finish_reason": "stop"},
            {"trajectory_id": "t1", "completion": "nein", "completion_token_count": 1, "finish_reason": "stop"},
        ],
        "prompt": None,
        "reference": {"words": ["ja", 1, 1.0, None]},
    }


def test_it_fails_again_alike(failed: Any, command: Callable[..., Any]) -> None:
    """As long as nothing was mended, the replay ends with the same error and code, and shows no scores."""
    done = command("score", "--replay", KEPT)
    assert done.returncode == failed.returncode
    assert done.stderr.splitlines() == failed.stderr.splitlines()[:-1]
    assert done.stdout.startswith("recorded: provider 'picky', group 'g0'")
    assert "now scores" not in done.stdout


def test_it_scores_once_the_provider_is_mended(
    failed: Any, command: Callable[..., Any], written: Callable[..., Path]
) -> None:
    """The same request goes to the code as it is now, and its scores are shown."""
    written("rewards.py", MENDED)
    done = command("score", "--replay", KEPT)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [" ".join(line.strip("│").split()) for line in done.stdout.splitlines()]
    assert "t0 │ 1" in lines
    assert "t1 │ 0" in lines
    assert lines[-1] == "picky now scores group g0"


def test_another_catalog_can_be_tried(failed: Any, command: Callable[..., Any], written: Callable[..., Path]) -> None:
    """`--catalog` takes the place of the recorded one."""
    written("mended.py", MENDED)
    assert command("score", "--replay", KEPT, "--catalog", "mended.py:catalog").returncode == 0
    written("others.py", MENDED.replace('"picky"', '"other"'))
    done = command("score", "--replay", KEPT, "--catalog", "others.py:catalog")
    assert done.returncode == 2
    assert "no provider is named 'picky'" in done.stderr


def test_a_later_failure_takes_the_place(failed: Any, command: Callable[..., Any], tmp_path: Path) -> None:
    """The file of the last failure is the one that is kept, still private."""
    (tmp_path / KEPT).chmod(0o644)
    assert command("score", "rows.jsonl", *OPTIONS, "--out", "out.jsonl").returncode == 3
    assert (tmp_path / KEPT).stat().st_mode & 0o777 == 0o600


def test_without_an_output_it_lies_where_the_user_stands(
    failed: Any, command: Callable[..., Any], tmp_path: Path
) -> None:
    """A run without `--out` keeps the request in the working directory."""
    done = command("score", "rows.jsonl", *OPTIONS)
    assert "The request is kept in failed-request.json:" in done.stderr
    assert (tmp_path / "failed-request.json").stat().st_mode & 0o777 == 0o600


def test_a_request_that_can_not_be_kept_does_not_hide_the_failure(
    failed: Any, command: Callable[..., Any], tmp_path: Path
) -> None:
    """Where the file can't be written, the failure is told all the same, with that added."""
    (tmp_path / "failed-request.json").mkdir()
    done = command("score", "rows.jsonl", *OPTIONS)
    assert done.returncode == 3
    assert done.stderr.startswith("posttrain: contract broken: provider 'picky', group 'g0'")
    assert "The request could not be kept: can't write failed-request.json: it is a folder" in done.stderr


def test_a_failure_of_rows_keeps_nothing(command: Callable[..., Any], written: Callable[..., Path]) -> None:
    """Where no provider was asked there is no request to keep."""
    written("rewards.py", BROKEN)
    done = command("score", written("rows.jsonl", [{"group_id": "g", "completion": "x", "reference": None}]), *OPTIONS)
    assert done.returncode == 3
    assert "kept" not in done.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is no kept request"),
        ("not json", "is no kept request"),
        ("[]", "is no kept request: Expected `object`, got `array`"),
        ("{}", "is no kept request: Object missing required field"),
        ('{"format": 2}', "is no kept request"),
        ("[" * 100_000, "is no kept request"),
    ],
)
def test_a_foreign_file_is_refused(
    command: Callable[..., Any], written: Callable[..., Path], content: str, message: str
) -> None:
    """What is no kept request is named, and nothing is called."""
    written("foreign.json", content)
    done = command("score", "--replay", "foreign.json")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("posttrain: set-up: foreign.json ")
    assert message in done.stderr


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "has format 2; this version reads 1"),
        ({"candidates": []}, "is no kept request: it has no candidates"),
        ({"candidates": [{"trajectory_id": 7}]}, "is no kept request"),
        ({"provider": None}, "is no kept request"),
    ],
)
def test_a_changed_file_is_refused(
    failed: Any, command: Callable[..., Any], tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    """A record of another version, or one that holds no request any more, is refused by name."""
    record = json.loads((tmp_path / KEPT).read_text())
    (tmp_path / KEPT).write_text(json.dumps({**record, **change}))
    done = command("score", "--replay", KEPT)
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr


def test_a_missing_file_is_refused(command: Callable[..., Any], tmp_path: Path) -> None:
    """A file that is not there, or that is a folder, is named."""
    for name in ("nowhere.json", os.fspath(tmp_path)):
        done = command("score", "--replay", name)
        assert done.returncode == 2
        assert f"{name} can't be read" in done.stderr


def test_an_unavailable_service_is_kept_too(
    command: Callable[..., Any], pairs: Callable[..., Path], flaky: str
) -> None:
    """What an outside service could not answer can be asked again, with the code of that failure."""
    done = command("score", pairs("down"), "--catalog", flaky, "--reward", "flaky", "--group-size", "2")
    assert done.returncode == 4
    again = command("score", "--replay", "failed-request.json")
    assert again.returncode == 4
    assert again.stderr.splitlines() == done.stderr.splitlines()[:-1]
