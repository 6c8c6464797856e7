# SPDX-License-Identifier: Apache-2.0
"""Each failure is one clear message on standard error, nothing on standard output, and an exit code of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

OPTIONS = ("--group-size", "2")


def names(folder: Path) -> list[str]:
    """What lies in a folder."""
    return sorted(each.name for each in folder.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "ROLLOUTS, --reward, --group-size missing"),
        (("four.jsonl",), "--reward, --group-size missing"),
        (("four.jsonl", "--reward", "gsm8k"), "--group-size missing"),
        (("--reward", "gsm8k", "--group-size", "2"), "ROLLOUTS missing"),
        (("nowhere.jsonl", "--reward", "gsm8k", *OPTIONS), "nowhere.jsonl can't be read: No such file or directory"),
        (("four.jsonl", "--reward", "gsm9k", *OPTIONS), "no provider is named 'gsm9k'; did you mean 'gsm8k'?"),
        (("four.jsonl", "--reward", "gsm8k", "--reward", "gsm8k", *OPTIONS), "provider 'gsm8k' is selected twice"),
        (("four.jsonl", "--reward", "gsm8k", *OPTIONS, "--weight", "gsm8k"), "--weight gsm8k: expected TERM=NUMBER"),
        (("four.jsonl", "--reward", "gsm8k", *OPTIONS, "--weight", "=1"), "--weight =1: expected TERM=NUMBER"),
        (("four.jsonl", "--reward", "gsm8k", *OPTIONS, "--weight", "gsm8k=x"), "--weight gsm8k=x: expected"),
        (("four.jsonl", "--reward", "gsm8k", *OPTIONS, "--weight", "gsm8k=nan"), "expected a finite number, got nan"),
        (("four.jsonl", "--reward", "gsm8k", *OPTIONS, "--weight", "gsm8k=inf"), "expected a finite number, got inf"),
        (("four.jsonl", "--reward", "gsm8k", *OPTIONS, "--weight", "task=1"), "weights for unknown terms 'task'"),
        (("four.jsonl", "--reward", "gsm8k", *OPTIONS, "--catalog", "no_such_module:catalog"), "can't be found"),
        (("four.jsonl", "--reward", "gsm8k", *OPTIONS, "--catalog", "nowhere.py:catalog"), "can't be read"),
        (("four.jsonl", "--reward", "gsm8k", *OPTIONS, "--catalog", "oops"), "catalog path 'oops': expected"),
        (("four.jsonl", "--reward", "gsm8k", *OPTIONS, "--group-by", "consecutive:x"), "write consecutive:N"),
        (("four.jsonl", "--reward", "gsm8k", *OPTIONS, "--group-by", ""), "--group-by takes names of columns"),
        (("four.jsonl", "--reward", "gsm8k", *OPTIONS, "--prompt-column", "reference"), "are both column 'reference'"),
        (("four.jsonl", "--reward", "gsm8k", *OPTIONS, "--resume"), "--resume needs --out"),
        (("four.jsonl", "--reward", "gsm8k", *OPTIONS, "--restart"), "--restart needs --out"),
        (
            ("four.jsonl", "--reward", "gsm8k", *OPTIONS, "--out", "o.jsonl", "--resume", "--restart"),
            "give one of them",
        ),
    ],
)  # fmt: skip
def test_bad_usage_is_two(
    command: Callable[..., Any], four: Path, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    """Exit code 2: what is wrong with the set-up is said before anything is scored or written."""
    done = command("score", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("posttrain: set-up: ")
    assert message in done.stderr
    assert names(tmp_path) == [four.name]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--group-size", "0"), "--group-size"),
        (("--group-size", "x"), "--group-size"),
        (("--estimator", "mean"), "--estimator"),
        (("--namespace", "test"), "--namespace"),
        (("--on-unavailable", "zero"), "--on-unavailable"),
        (("--max-dropped-fraction", "1.1"), "--max-dropped-fraction"),
        (("--max-dropped-fraction", "nan"), "--max-dropped-fraction"),
        (("--groups-in-flight", "0"), "--groups-in-flight"),
        (("--no-such-flag",), "--no-such-flag"),
    ],
)
def test_a_value_that_no_flag_takes_is_two(
    command: Callable[..., Any], four: Path, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    """Exit code 2 from the parser too, with the flag named."""
    done = command("score", four, "--reward", "gsm8k", "--group-size", "2", "--out", "out.jsonl", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert names(tmp_path) == [four.name]


def test_every_wrong_weight_is_named(command: Callable[..., Any], four: Path) -> None:
    """One error lists all of them, a term that stands twice among them."""
    weights = ("--weight", "a", "--weight", "gsm8k=1", "--weight", "gsm8k=2", "--weight", "b=")
    done = command("score", four, "--reward", "gsm8k", *OPTIONS, *weights)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "posttrain: set-up: --weight a: expected TERM=NUMBER, for example length=-0.1",
        "--weight gsm8k=2: the term stands twice",
        "--weight b=: expected TERM=NUMBER, for example length=-0.1",
    ]


@pytest.mark.parametrize(
    ("out", "metrics", "message"),
    [
        ("four.jsonl", None, "--out would overwrite the rollouts themselves"),
        ("./sub/../four.jsonl", None, "--out would overwrite the rollouts themselves"),
        ("link.jsonl", None, "--out would overwrite the rollouts themselves"),
        ("out.jsonl", "four.jsonl", "--metrics would overwrite the rollouts themselves"),
        (None, "four.jsonl", "--metrics would overwrite the rollouts themselves"),
        ("metrics.json", None, "--metrics would overwrite --out"),
        ("out.jsonl", "out.jsonl", "--metrics would overwrite --out"),
        ("out.jsonl", "out.identity.json", "the identity beside --out would overwrite --metrics"),
        ("out.jsonl.gz", None, "scored rows are written plain, so leave .gz out of the name"),
        ("out.ZST", None, "scored rows are written plain, so leave .ZST out of the name"),
        ("folder", None, "it is a folder"),
        ("out.jsonl", "folder", "it is a folder"),
        ("four.jsonl/out.jsonl", None, "can't be made"),
    ],
)
def test_an_output_in_the_wrong_place_is_two(
    command: Callable[..., Any], four: Path, tmp_path: Path, out: str | None, metrics: str | None, message: str
) -> None:
    """An output never takes the place of the rollouts or of another output, and that is said before any scoring."""
    for folder in ("folder", "sub"):
        (tmp_path / folder).mkdir()
    (tmp_path / "link.jsonl").symlink_to(four)
    before = names(tmp_path), four.read_bytes()
    flags = [text for flag, value in (("--out", out), ("--metrics", metrics)) if value for text in (flag, value)]
    for mode in ((), ("--restart",)) if out else ((),):
        done = command("score", four, "--reward", "gsm8k", *OPTIONS, *flags, *mode)
        assert done.returncode == 2
        assert done.stdout == ""
        assert message in done.stderr
        assert (names(tmp_path), four.read_bytes()) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to this user")
def test_an_unwritable_folder_is_two(command: Callable[..., Any], four: Path, tmp_path: Path) -> None:
    """A folder that may not be written to is named before anything is scored."""
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    for out in ("closed/out.jsonl", "closed/deeper/out.jsonl"):
        done = command("score", four, "--reward", "gsm8k", *OPTIONS, "--out", out)
        assert done.returncode == 2
        assert "Permission denied" in done.stderr
        assert done.stdout == ""


def test_an_output_that_can_not_be_made_is_two(command: Callable[..., Any], four: Path) -> None:
    """A place in which no file can be made is named, whoever the user is."""
    done = command("score", four, "--reward", "gsm8k", *OPTIONS, "--out", "/proc/none/out.jsonl")
    assert done.returncode == 2
    assert "the folder /proc/none can't be made" in done.stderr


def test_a_broken_contract_is_three(
    command: Callable[..., Any], pairs: Callable[..., Path], flaky: str, tmp_path: Path
) -> None:
    """Exit code 3: provider, group and trajectory are named; where it is the first group, only its request is kept."""
    done = command("score", pairs("bad"), "--catalog", flaky, "--reward", "flaky", *OPTIONS, "--out", "out.jsonl")
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.startswith(
        "posttrain: contract broken: provider 'flaky', group 'g0', trajectory 'g0/0': the terms are not what"
    )
    assert "expected one finite number, got nan" in done.stderr
    assert names(tmp_path) == ["out.jsonl.failed-request.json", "pairs.jsonl", "rewards.py"]


def test_a_group_of_another_size_is_three(command: Callable[..., Any], four: Path) -> None:
    """Groups are scored complete or not at all."""
    done = command("score", four, "--reward", "gsm8k", "--group-size", "3")
    assert done.returncode == 3
    assert "group 'a': has 2 candidates ('a0', 'a1'), expected 3" in done.stderr
    assert done.stdout == ""


def test_an_unavailable_service_is_four(
    command: Callable[..., Any], pairs: Callable[..., Path], flaky: str, tmp_path: Path
) -> None:
    """Exit code 4, with the service's own words; no number is filled in and no output appears."""
    done = command("score", pairs("x", "down"), "--catalog", flaky, "--reward", "flaky", *OPTIONS, "--out", "out.jsonl")
    assert done.returncode == 4
    assert done.stdout == ""
    assert done.stderr.startswith("posttrain: unavailable: provider 'flaky', group 'g1', trajectory 'g1/0': 503 from")
    assert not (tmp_path / "out.jsonl").exists()


def test_dropped_groups_are_marked_and_counted(
    command: Callable[..., Any],
    pairs: Callable[..., Path],
    flaky: str,
    scored: Callable[..., Any],
    tmp_path: Path,
) -> None:
    """Up to the ceiling whole groups are left out: no reward, no advantage, the reason in the row and the table."""
    # 1 of 10 groups: exactly the default ceiling of 0.1.
    path = pairs(*["x"] * 9, "down")
    drop = ("--catalog", flaky, "--reward", "flaky", *OPTIONS, "--on-unavailable", "drop_group")
    done = command("score", path, *drop, "--out", "out.jsonl")
    assert done.returncode == 0, done.stderr
    rows = scored(tmp_path / "out.jsonl")
    cause = "flaky: RewardUnavailableError"
    assert rows[18:] == [
        {"trajectory_id": f"g9/{at}", "group_id": "g9", "reward": {}, "advantage": None, "dropped_because": cause}
        for at in range(2)
    ]
    # "x" has one character, "ok" has two.
    assert [row["reward"]["final"] for row in rows[:18]] == [1.0, 2.0] * 9
    assert all("dropped_because" not in row for row in rows[:18])
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    assert lines[:2] == ["groups          10, 1 dropped", f"  dropped       1 by {cause}"]


@pytest.mark.parametrize("estimator", ["group_norm", "group_mean_batch_std"])
def test_more_dropped_groups_than_the_ceiling_is_four(
    command: Callable[..., Any], pairs: Callable[..., Path], flaky: str, tmp_path: Path, estimator: str
) -> None:
    """The ceiling is held against the whole file; no output appears, and the way on is told."""
    path = pairs("x", "down", *["x"] * 7, "down")
    drop = (
        "--catalog", flaky, "--reward", "flaky", *OPTIONS, "--on-unavailable", "drop_group", "--estimator", estimator
    )  # fmt: skip
    done = command("score", path, *drop, "--out", "out.jsonl")
    assert done.returncode == 4
    assert done.stdout == ""
    assert "2 of 10 groups could not be scored, above the ceiling of 0.1" in done.stderr
    assert "flaky: RewardUnavailableError: 2" in done.stderr
    assert "--restart" in done.stderr
    assert not {"out.jsonl", "metrics.json", "out.identity.json"} & set(names(tmp_path))
    wider = command("score", path, *drop, "--out", "out.jsonl", "--restart", "--max-dropped-fraction", "0.2")
    assert wider.returncode == 0
    assert names(tmp_path) == ["metrics.json", "out.identity.json", "out.jsonl", "pairs.jsonl", "rewards.py"]


def test_all_groups_dropped_is_four(command: Callable[..., Any], pairs: Callable[..., Path], flaky: str) -> None:
    """When nothing is left, a ceiling of 1 does not help."""
    drop = ("--on-unavailable", "drop_group", "--max-dropped-fraction", "1")
    done = command("score", pairs("down"), "--catalog", flaky, "--reward", "flaky", *OPTIONS, *drop)
    assert done.returncode == 4
    assert "so none is left" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("where", ["evaluate", "factory", "catalog"])
def test_a_provider_can_not_end_the_run_as_if_all_were_well(
    command: Callable[..., Any], four: Path, written: Callable[..., Path], where: str
) -> None:
    """`sys.exit(0)` in an author's code is a broken contract, not success."""
    ends = {name: "raise SystemExit(0)" if name == where else "pass" for name in ("evaluate", "factory", "catalog")}
    written(
        "rewards.py",
        f"""
from posttrain.rewards import RewardProviderSpec

class Provider:
    def __init__(self):
        {ends["factory"]}
    def evaluate(self, request):
        {ends["evaluate"]}

def catalog():
    {ends["catalog"]}
    return {{"quitter": RewardProviderSpec(factory=Provider, revision="1", terms=("task",))}}
""",
    )
    done = command("score", four, "--catalog", "rewards.py:catalog", "--reward", "quitter", *OPTIONS)
    # A catalog that can't be made is a fault of the set-up; what a provider does later breaks the contract.
    in_set_up = (2, "posttrain: set-up: catalog factory 'rewards.py:catalog' raised SystemExit: 0\n")
    later = (3, "posttrain: contract broken: a provider or its catalog called sys.exit(0)\n")
    assert (done.returncode, done.stderr) == (in_set_up if where == "catalog" else later)
    assert done.stdout == ""
