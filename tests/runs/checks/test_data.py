# SPDX-License-Identifier: Apache-2.0
"""The first rows of the data are held against what the selected providers need."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.runs import load_config
from posttrain.runs.checks import PreflightReport, preflight
from posttrain.runs.checks.rows import opened_rows

Written = Callable[..., Path]
Found = Callable[[PreflightReport], dict[str, tuple[str, ...]]]


@pytest.fixture
def flight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., PreflightReport]:
    """The report on a run of the built-in `gsm8k`, which needs a reference, on ``rows.jsonl``."""
    monkeypatch.chdir(tmp_path)

    def run(*overrides: str, **settings: Any) -> PreflightReport:
        given = ["rl.reward=gsm8k", "rl.group_size=2", "rl.data.path=rows.jsonl", *overrides]
        return preflight(load_config(None, given), **settings)

    return run


def test_rows_that_have_what_is_needed(flight: Callable[..., PreflightReport], written: Written, found: Found) -> None:
    """The data is described, and as many of its first rows as were asked for are looked at."""
    written("rows.jsonl", [{"question": f"{at}?", "answer": str(at)} for at in range(20)])
    columns = ["rl.data.prompt_column=question", "rl.data.response_column=answer"]
    for settings, probed in (({}, 8), ({"rows": 3}, 3), ({"rows": 50}, 20)):
        report = flight(*columns, **settings)
        assert found(report) == {}
        assert report.data is not None
        assert (report.data.title, report.data.rows, report.data.probed) == ("rows.jsonl", 20, probed)
        assert len(report.data.fingerprint) == 64


def test_rows_without_a_reference(flight: Callable[..., PreflightReport], written: Written, found: Found) -> None:
    """A provider that needs a reference is refused rows in which it is missing or null; each row is named."""
    written("rows.jsonl", [{"prompt": "a", "reference": "1"}, {"prompt": "b"}, {"prompt": "c", "reference": None}])
    report = flight()
    assert list(found(report)) == ["data"]
    lines = found(report)["data"]
    assert any("row 2" in line for line in lines)
    assert any("row 3" in line for line in lines)
    assert not any("row 1:" in line for line in lines)
    assert report.exit_code == 3


def test_a_column_that_is_not_there(flight: Callable[..., PreflightReport], written: Written, found: Found) -> None:
    """A column that was asked for by name and is in no row is a fault of the config, with the key to set."""
    written("rows.jsonl", [{"prompt": "a", "answer": "1"}])
    report = flight("rl.data.response_column=anser")
    assert list(found(report)) == ["data"]
    told = " ".join(found(report)["data"])
    assert "no column 'anser' for the reference" in told
    assert "set rl.data.response_column" in told
    assert report.exit_code == 2


def test_a_file_that_is_not_there(flight: Callable[..., PreflightReport], found: Found) -> None:
    """Data that can't be opened fails the check of the data, and no other."""
    report = flight()
    assert list(found(report)) == ["data"]
    assert report.exit_code == 2
    assert report.data is None


def test_nobody_needs_a_reference(flight: Callable[..., PreflightReport], written: Written, found: Found) -> None:
    """Rows without a reference are fine where no provider reads it; the config's default names no column by itself."""
    written("rows.jsonl", [{"prompt": "a"}, {"prompt": "b"}])
    assert found(flight("rl.reward=nonempty")) == {}


def test_the_needs_of_the_validation_count(
    flight: Callable[..., PreflightReport], written: Written, found: Found
) -> None:
    """What the provider of the validation needs is asked of the rows too, when validation is enabled."""
    written("rows.jsonl", [{"prompt": "a"}])
    validated = ["rl.reward=nonempty", "rl.validation.reward=gsm8k"]
    assert found(flight(*validated)) == {}
    assert list(found(flight(*validated, "rl.validation.enabled=true"))) == ["data"]


@pytest.mark.slow
def test_a_source_of_hugging_face(flight: Callable[..., PreflightReport], written: Written, found: Found) -> None:
    """Rows that `datasets` reads are probed alike; without it, one line says what to install."""
    written("rows.jsonl", [{"prompt": "a", "reference": "1"}, {"prompt": "b", "reference": None}])
    report = flight("rl.data.source=hf")
    assert list(found(report)) == ["data"]
    line = " ".join(found(report)["data"])
    assert ("row [1]" in line) != ("pip install 'posttrain[data]'" in line)


def test_the_needs_are_known_of_a_process_that_answered(
    flight: Callable[..., PreflightReport], written: Written, found: Found
) -> None:
    """The data is probed although a provider was not constructed here, for what it would leave behind."""
    catalog = Path(__file__).parent / "providers" / "hostile.py"
    written("rows.jsonl", [{"prompt": "a"}])
    report = flight("rl.reward=[it, gsm8k]", f"rl.reward_catalog={catalog}:process_that_stays")
    assert list(found(report)) == ["no process", "data"]


def test_rows_are_opened_as_the_config_says(tmp_path: Path, written: Written) -> None:
    """The mapping of the config reaches the rows: columns, id column."""
    path = written("rows.jsonl", [{"q": "a", "a": "1", "id": "first"}])
    data = load_config(
        None,
        [
            "rl.reward=gsm8k", "rl.group_size=1", f"rl.data.path={path}", "rl.data.prompt_column=q",
            "rl.data.response_column=a", "rl.data.row_id_column=id",
        ],
    ).data  # fmt: skip
    (row,) = opened_rows(data).take([0])
    assert (row.prompt, row.reference, row.row_id) == ("a", "1", "first")


def test_held_out_rows_are_looked_at_too(
    flight: Callable[..., PreflightReport], written: Written, found: Found
) -> None:
    """By what the providers of validation need, while the training rows are held to those of training alone."""
    written("rows.jsonl", [{"prompt": "a"}, {"prompt": "b"}])
    written("held_out.jsonl", [{"prompt": "c", "reference": "1"}, {"prompt": "d", "reference": "2"}])
    validated = ["rl.reward=nonempty", "rl.validation.enabled=true", "rl.validation.reward=gsm8k"]
    report = flight(*validated, "rl.validation.path=held_out.jsonl")
    assert found(report) == {}
    (check,) = [each for each in report.checks if each.name == "data"]
    assert check.lines == (
        "rows.jsonl: 2 of 2 rows have prompt",
        "held out: held_out.jsonl: 2 of 2 rows have reference",
    )
    # Without rows of its own, validation would draw from those.
    assert any("reference" in line for line in found(flight(*validated))["data"])
    written("held_out.jsonl", [{"prompt": "c", "reference": "1"}, {"prompt": "d"}])
    report = flight(*validated, "rl.validation.path=held_out.jsonl")
    assert any(line.startswith("held_out.jsonl") for line in found(report)["data"])
    assert report.exit_code == 3


def test_rows_that_a_function_makes(flight: Callable[..., PreflightReport], found: Found) -> None:
    """They are made and looked at; a function that is not there fails the check."""
    sums = "posttrain.training.tiny.addition"
    made = ["rl.data.source=function", f"rl.data.path={sums}:training_rows"]
    report = flight(*made)
    assert found(report) == {}
    assert report.data is not None
    assert (report.data.title, report.data.rows, report.data.probed) == (f"{sums}:training_rows", 900, 8)
    (line,) = found(flight(made[0], f"rl.data.path={sums}:nothing"))["data"]
    assert "has to be a plain function without arguments" in line
