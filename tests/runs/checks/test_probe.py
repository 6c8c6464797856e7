# SPDX-License-Identifier: Apache-2.0
"""With `probe`, managed providers are opened and closed, and golden completions are scored in whole groups."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.errors import RewardConfigError
from posttrain.runs.checks import PreflightReport
from posttrain.runs.checks.golden import load_golden

Flight = Callable[..., PreflightReport]
Found = Callable[[PreflightReport], dict[str, tuple[str, ...]]]
Written = Callable[..., Path]

ROWS = "rl.data.path=rows.jsonl"


@pytest.fixture
def rows(written: Written) -> Path:
    """Three rows with references of three lengths."""
    return written("rows.jsonl", [{"prompt": f"p{at}", "reference": "x" * at} for at in (1, 2, 3)])


def _notes(folder: Path) -> list[str]:
    file = folder / "notes"
    return file.read_text().split() if file.exists() else []


def _verdicts(report: PreflightReport) -> dict[str, str]:
    return {check.name: check.verdict for check in report.checks if check.name in {"opens", "golden"}}


def test_nothing_is_called_without_probe(flight: Flight, tmp_path: Path) -> None:
    """By default no provider is opened."""
    assert _verdicts(flight("managed")) == {"opens": "skipped", "golden": "skipped"}
    assert _notes(tmp_path) == []


def test_a_managed_provider_is_opened_and_closed_once(flight: Flight, tmp_path: Path, found: Found) -> None:
    """With `probe` it is opened and closed once in all, also where training and validation share it."""
    report = flight("managed", "rl.validation.enabled=true", probe=True)
    assert found(report) == {}
    assert _verdicts(report) == {"opens": "ok", "golden": "skipped"}
    assert _notes(tmp_path) == ["open", "close"]


def test_a_provider_that_does_not_open(flight: Flight, found: Found) -> None:
    """It fails the check of opening alone; an outside service that is down has its own exit code."""
    report = flight("does_not_open", probe=True)
    assert list(found(report)) == ["opens"]
    assert found(report)["opens"][0] == "provider 'it': 503 from the judge"
    assert report.exit_code == 4


def test_golden_completions_are_scored(flight: Flight, tmp_path: Path, rows: Path, found: Found) -> None:
    """Each golden completion is shown with its terms; groups are filled up to the run's size, and cut at it."""

    def golden(prompt: Any, reference: Any) -> Any:
        return {"p1": "ab", "p2": ["abc", "abcd"], "p3": ("ab", "abc", "abcde")}[prompt]

    report = flight("picky", ROWS, probe=True, golden=golden)
    assert found(report) == {}
    # Picky's one term is the length of the completion.
    assert [(score.completion, score.terms) for score in report.golden] == [
        ("ab", {"t": 2.0}),
        ("abc", {"t": 3.0}),
        ("abcd", {"t": 4.0}),
        ("ab", {"t": 2.0}),
        ("abc", {"t": 3.0}),
        ("abcde", {"t": 5.0}),
    ]
    assert len({score.row for score in report.golden}) == 3
    # Groups of two: one of p1, one of p2, two of p3. None was cut by a token budget.
    assert _notes(tmp_path) == ["2:stop"] * 4


def test_as_many_rows_as_were_asked_for(flight: Flight, rows: Path) -> None:
    """`golden_rows` counts the rows that the function is asked about, `rows` those that are looked at."""
    asked: list[tuple[Any, Any]] = []

    def golden(prompt: Any, reference: Any) -> str:
        asked.append((prompt, reference))
        return "good"

    flight("picky", ROWS, probe=True, golden=golden, golden_rows=2, rows=1)
    assert asked == [("p1", "x"), ("p2", "xx")]


def test_a_golden_completion_that_is_not_scored(flight: Flight, rows: Path, found: Found) -> None:
    """It fails the check of golden completions alone, with the group; the others are still scored."""
    report = flight("picky", ROWS, probe=True, golden=lambda _, reference: reference)
    assert list(found(report)) == ["golden"]
    assert "too short" in found(report)["golden"][0]
    assert "preflight-probe-0" in found(report)["golden"][0]
    assert [score.terms for score in report.golden] == [{"t": 2.0}, {"t": 3.0}]
    assert report.exit_code == 3


def test_a_judge_that_is_down_is_asked_once(flight: Flight, tmp_path: Path, rows: Path, found: Found) -> None:
    """When a service can't answer, it is not asked about the other rows, and the exit code says whose fault it is."""
    report = flight("down", ROWS, probe=True, golden=lambda *_: "x")
    assert list(found(report)) == ["golden"]
    assert report.exit_code == 4
    assert _notes(tmp_path) == ["asked"]


def test_each_provider_scores_in_groups_of_its_size(flight: Flight, rows: Path, found: Found) -> None:
    """Validation has groups of `n_generation`; a provider of both is asked once, in training's groups."""
    report = flight(
        "two",
        ROWS,
        "rl.validation.enabled=true",
        "rl.validation.reward=[it, that]",
        "rl.validation.n_generation=3",
        probe=True,
        golden=lambda *_: "x",
        golden_rows=1,
    )
    # `that` declares the term u and gives t: its fault is found, in its own group of three.
    assert list(found(report)) == ["golden"]
    assert any("term 'u' is missing" in line for line in found(report)["golden"])
    assert [score.provider for score in report.golden] == ["it"]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (None, ": expected a completion or a list of them, got None"),
        ([], ": expected a completion or a list of them, got [] (list)"),
        (["a", 1], ": expected a completion or a list of them, got ['a', 1] (list)"),
        (ValueError("no idea"), " raised ValueError: no idea"),
        (SystemExit(3), " called sys.exit(3)"),
    ],
)
def test_a_golden_function_that_gives_none(flight: Flight, rows: Path, found: Found, given: Any, line: str) -> None:
    """What is no completion is a fault of the row's, and an exception of the function is one too."""

    def golden(prompt: Any, _: Any) -> Any:
        if prompt != "p2":
            return "fine"
        if isinstance(given, BaseException):
            raise given
        return given

    report = flight("picky", ROWS, probe=True, golden=golden)
    assert list(found(report)) == ["golden"]
    (told,) = found(report)["golden"]
    assert told.endswith(f"the golden function{line}")
    assert len(report.golden) == 2


def test_a_golden_function_changes_nothing(flight: Flight, written: Written) -> None:
    """What it does to prompt and reference reaches no provider."""
    written("rows.jsonl", [{"prompt": ["p"], "reference": {"a": [1]}}])

    def golden(prompt: Any, reference: Any) -> str:
        prompt.append(object())
        reference["a"] = object()
        return "abc"

    report = flight("picky", ROWS, probe=True, golden=golden)
    assert _verdicts(report) == {"opens": "ok", "golden": "ok"}


def test_a_golden_function_by_path(
    flight: Flight, tmp_path: Path, rows: Path, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found in a module or in a file, and its name in the report is the row's."""
    written("golden_here.py", "def best(prompt, reference):\n    return [reference * 2, 'no']\n")
    monkeypatch.syspath_prepend(tmp_path)
    for path in ("golden_here:best", "golden_here.py:best"):
        report = flight("picky", ROWS, probe=True, golden=path, golden_rows=1)
        assert [score.completion for score in report.golden] == ["xx", "no"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("golden", "expected package.module:function or file.py:function, got 'golden'"),
        ("no-module:f", "expected package.module:function"),
        ("no_such_module_here:f", "golden: no_such_module_here can't be imported: it raised ModuleNotFoundError"),
        ("no_such_file.py:f", "golden: no_such_file.py can't be imported: it raised FileNotFoundError"),
        ("json:nothing", "golden: json:nothing has to be a function (prompt, reference), got None"),
    ],
)
def test_a_golden_path_that_leads_nowhere(flight: Flight, rows: Path, found: Found, path: str, words: str) -> None:
    """A function that can't be had fails the check of golden completions, and is a fault of the set-up."""
    report = flight("sound", ROWS, probe=True, golden=path)
    assert list(found(report)) == ["golden"]
    assert words in found(report)["golden"][0]
    assert report.exit_code == 2


def test_load_golden_refuses_what_is_no_function() -> None:
    """A module that ends the process when it is imported is a fault as well."""
    with pytest.raises(RewardConfigError, match="has to be a function"):
        load_golden("os:name")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"golden": "a:b"}, "golden: completions are scored with --probe only"),
        ({"golden": "a:b", "probe": True}, "set rl.data.path"),
        ({"rows": 0}, "rows: expected an int of at least 1, got 0"),
        ({"golden_rows": True}, "golden_rows: expected an int of at least 1, got True"),
        ({"deadline_s": 0}, "deadline_s: expected a positive number of seconds, got 0"),
        ({"deadline_s": float("nan")}, "deadline_s: expected a positive number of seconds, got nan"),
    ],
)
def test_arguments_that_make_no_sense(flight: Flight, settings: dict[str, Any], words: str) -> None:
    """Bad usage is refused before anything is constructed."""
    with pytest.raises(RewardConfigError, match="preflight can't be made") as caught:
        flight("sound", **settings)
    assert words in str(caught.value)
