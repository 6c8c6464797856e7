# SPDX-License-Identifier: Apache-2.0
"""What providers tell of themselves: what the machine lacks, how many calls they make at once, a probe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from posttrain.runs.checks import PreflightReport

Flight: TypeAlias = Callable[..., PreflightReport]


def _of(report: PreflightReport, name: str) -> tuple[str, tuple[str, ...]]:
    (check,) = [check for check in report.checks if check.name == name]
    return check.verdict, check.lines


def _notes(folder: Path) -> list[str]:
    file = folder / "notes"
    return file.read_text().split() if file.exists() else []


def test_the_machine_is_always_looked_at(flight: Flight, tmp_path: Path) -> None:
    """Without `probe` the provider is asked about the machine once, and neither opened nor tried."""
    report = flight("content")
    assert _of(report, "machine") == ("ok", ("it found what is needed",))
    assert _of(report, "probe") == ("skipped", ("asked for with --probe",))
    assert _notes(tmp_path) == ["machine"]


def test_what_the_machine_lacks_fails(flight: Flight) -> None:
    """Every line of it is told, and the run may not begin."""
    report = flight("lacking")
    assert _of(report, "machine") == (
        "failed",
        ("provider 'it': this machine lacks:", "  MY_KEY is not set", "  curl is not there"),
    )
    assert report.exit_code == 2


def test_a_provider_that_tells_nothing(flight: Flight) -> None:
    """A plain rule needs nothing, calls nobody and has nothing to try."""
    report = flight("managed", probe=True)
    assert _of(report, "machine") == ("ok", ("no provider needs anything",))
    assert _of(report, "outside calls") == ("ok", ("no provider says that it makes any",))
    assert _of(report, "probe") == ("skipped", ("no provider offers one",))


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        ([], "it: concurrency 64 calls at once at http://judge/v1"),
        (["backend=processes", "processes.workers=8"], "64 x 8 workers = 512 calls at once at http://judge/v1"),
        (["backend=ray", "ray.min_actors=3"], "64 x 3 actors = 192 calls at once at http://judge/v1"),
        (["backend=ray", "ray.max_actors=5"], "64 x 5 actors = 320 calls at once at http://judge/v1"),
    ],
)
def test_calls_at_once(flight: Flight, overrides: list[str], line: str) -> None:
    """What the provider declares, times the processes or the most actors that the config allows."""
    report = flight("content", *[f"rl.reward_stage.{each}" for each in overrides])
    verdict, lines = _of(report, "outside calls")
    assert verdict == "ok"
    assert lines[0].endswith(line)


def test_cautions_are_warnings(flight: Flight) -> None:
    """They are told before the numbers, and the run may begin."""
    report = flight("cautious")
    verdict, lines = _of(report, "outside calls")
    assert (verdict, lines[0]) == ("warning", "it: model 'x' names no snapshot")
    assert report.exit_code == 0


def test_a_probe_is_made_between_open_and_close(flight: Flight, tmp_path: Path) -> None:
    """What came back is told on one line."""
    report = flight("content", probe=True)
    assert _of(report, "probe") == ("ok", ("it: answered 'yes'",))
    assert _notes(tmp_path) == ["machine", "open", "probe", "close"]


def test_a_probe_that_fails(flight: Flight, tmp_path: Path) -> None:
    """It has a check of its own, says that the service is down, and the provider is closed all the same."""
    report = flight("silent_service", probe=True)
    assert _of(report, "probe") == ("failed", ("provider 'it': 503 from the judge",))
    assert _of(report, "opens")[0] == "ok"
    assert report.exit_code == 4
    assert _notes(tmp_path)[-1] == "close"


def test_a_route_asks_its_entries(flight: Flight) -> None:
    """What any entry lacks, warns of, calls or answers is told with its name."""
    report = flight("routed")
    assert _of(report, "machine") == (
        "failed",
        ("provider 'it': the route's entry 'b': b lacks", "the route's entry 'b':   curl"),
    )
    assert _of(report, "outside calls") == (
        "warning",
        ("it: a: old", "it: concurrency 128 calls at once at http://judge/v1"),
    )
    well = flight("routed_well", probe=True)
    assert _of(well, "probe") == ("ok", ("it: a: answered 'yes'", "it: b: said 'no'"))
