# SPDX-License-Identifier: Apache-2.0
"""`--explain`: one candidate with what each provider saw and returned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BOTH = """
from functools import partial
from posttrain.rewards import RewardProviderResult, RewardProviderSpec, map_candidates


def score(term, candidate, context):
    return RewardProviderResult({term: float(candidate.completion)})


def spec(term, needs):
    return RewardProviderSpec(
        factory=partial(map_candidates, partial(score, term)), revision="1", terms=(term,), needs=needs
    )


def catalog():
    return {
        "blind": spec("blind", ()),
        "asks": spec("asks", ("prompt",)),
        "knows": spec("knows", ("reference",)),
    }
"""


def cells(text: str) -> dict[str, str]:
    """First column to second of the box-drawn table, and of the scores' rows everything behind the id."""
    rows = [[cell.strip() for cell in line.strip("│┃").split("│")] for line in text.splitlines() if line[:1] == "│"]
    return {row[0]: " ".join(row[1:]) for row in rows}


@pytest.fixture
def rows(written: Callable[..., Path]) -> Path:
    """Two groups of two; each completion is the score that it gets."""
    written("both.py", BOTH)
    return written(
        "rows.jsonl",
        [
            {
                "group_id": group,
                "trajectory_id": f"{group}/{at}",
                "prompt": f"ask {group}",
                "reference": {"answer": [group, 1.0, None]},
                "completion": completion,
                "finish_reason": "length" if at else None,
                "completion_token_count": 10 + at,
            }
            for group, completions in (("one", ("1", "2")), ("two", ("4", "8")))
            for at, completion in enumerate(completions)
        ],
    )


def test_each_provider_shows_what_it_saw(command: Callable[..., Any], rows: Path, tmp_path: Path) -> None:
    """Prompt and reference are shown to the providers that declared them, and to no other; then the group's scores."""
    done = command(
        "score", rows, "--catalog", "both.py:catalog", "--reward", "blind", "--reward", "asks", "--reward", "knows",
        "--group-size", "2", "--weight", "asks=10", "--estimator", "group_mean", "--explain", "two/1",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("two/1, in group two")
    shown = cells(done.stdout)
    reference = '{"answer":["two",1.0,null]}'
    assert shown == {
        "rows": "3 to 4, candidate 1",
        "completion": "8",
        "finish_reason": "length",
        "completion_token_count": "11",
        "blind saw prompt": "null",
        "blind saw reference": "null",
        "asks saw prompt": "ask two",
        "asks saw reference": "null",
        "knows saw prompt": "null",
        "knows saw reference": reference,
        # 4 + 10 * 4 + 4 = 48 and 8 + 10 * 8 + 8 = 96, 24 to each side of their mean.
        "two/0": "4 4 4 48 -24",
        "> two/1": "8 8 8 96 24",
    }
    assert sorted(each.name for each in tmp_path.iterdir()) == ["both.py", "rows.jsonl"]


def test_an_estimator_over_the_batch_says_what_it_took(command: Callable[..., Any], rows: Path) -> None:
    """The group is taken as the batch, and the table says so."""
    done = command(
        "score", rows, "--catalog", "both.py:catalog", "--reward", "blind", "--group-size", "2",
        "--estimator", "group_mean_batch_std", "--explain", "one/0",
    )  # fmt: skip
    assert done.returncode == 0
    assert "advantage (the group taken as the batch)" in " ".join(done.stdout.split())
    # 1 and 2: deviations of 0.5, population standard deviation 0.5, so -0.5 / (0.5 + 1e-4).
    assert cells(done.stdout)["> one/0"] == "1 1 -0.9998"


def test_an_unknown_id_names_the_nearest(command: Callable[..., Any], rows: Path) -> None:
    """An id that the file does not have is bad usage, with the nearest one wherever it stands."""
    options = ("--catalog", "both.py:catalog", "--reward", "blind", "--group-size", "2", "--explain")
    done = command("score", rows, *options, "one/10")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"posttrain: set-up: {rows} has no candidate 'one/10'; did you mean 'one/1'?\n"
    done = command("score", rows, *options, "nothing like it")
    assert done.returncode == 2
    assert done.stderr == f"posttrain: set-up: {rows} has no candidate 'nothing like it'\n"


def test_a_dropped_group_says_why(command: Callable[..., Any], pairs: Callable[..., Path], flaky: str) -> None:
    """A candidate of a dropped group is shown with the reason and without scores."""
    done = command(
        "score", pairs("x", "down"), "--catalog", flaky, "--reward", "flaky", "--group-size", "2",
        "--on-unavailable", "drop_group", "--explain", "g1/1",
    )  # fmt: skip
    assert done.returncode == 0
    assert cells(done.stdout)["dropped"] == "flaky: RewardUnavailableError"
    assert "advantage" not in done.stdout


def test_a_failing_group_is_an_error(command: Callable[..., Any], pairs: Callable[..., Path], flaky: str) -> None:
    """What fails when it is scored fails when it is explained, and no other group is called for it."""
    options = ("--catalog", flaky, "--reward", "flaky", "--group-size", "2", "--explain")
    path = pairs("down", "bad", "x")
    assert command("score", path, *options, "g1/1").returncode == 3
    assert command("score", path, *options, "g0/1").returncode == 4
    assert command("score", path, *options, "g2/1").returncode == 0


def test_texts_are_shown_as_they_are(command: Callable[..., Any], written: Callable[..., Path]) -> None:
    """Markup, emoji codes and line breaks of a completion are its own; control characters are spelled out."""
    text = "[red]x[/red] :smile: [/b]\nsecond\x1b[31m\rline"
    path = written("odd.jsonl", [{"group_id": "[g]", "trajectory_id": ":+1:", "completion": text}])
    done = command("score", path, "--reward", "constant", "--group-size", "1", "--explain", ":+1:")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(":+1:, in group [g]")
    assert cells(done.stdout)["completion"] == "[red]x[/red] :smile: [/b]"
    assert r"second\x1b[31m\rline" in done.stdout
    assert "> :+1:" in cells(done.stdout)


def test_a_long_completion_is_cut(command: Callable[..., Any], written: Callable[..., Path]) -> None:
    """The length is told where a text is cut, and only there."""
    rows = [{"group_id": "g", "trajectory_id": f"t{size}", "completion": "x" * size} for size in (2000, 2001)]
    path = written("long.jsonl", rows)
    options = ("--reward", "constant", "--group-size", "2", "--explain")
    assert "characters)" not in command("score", path, *options, "t2000").stdout
    shown = command("score", path, *options, "t2001").stdout
    assert "(2,001 characters)" in shown
    assert shown.count("x") == 2000
