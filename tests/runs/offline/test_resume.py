# SPDX-License-Identifier: Apache-2.0
"""What an interrupted run leaves, who may go on with it, and what is not paid for twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.rollouts.journal import Journal

GROUPS = 60

# The files `fails_at`, `revision` and `down` steer it from outside, so that its own text and identity stay the same.
COUNTED = """
from pathlib import Path
from posttrain.rewards import (
    RewardCandidateResult, RewardGroupResult, RewardProviderResult, RewardProviderSpec, RewardUnavailableError
)

def said(name):
    return Path(name).read_text() if Path(name).exists() else ""


class Counted:
    def evaluate(self, request):
        with open("calls", "a") as calls:
            calls.write(request.group_id + "\\n")
        if request.group_id == said("fails_at"):
            return None
        if request.group_id in said("down").split():
            raise RewardUnavailableError("503")
        return RewardGroupResult(
            request.group_id,
            tuple(
                RewardCandidateResult(each.trajectory_id, RewardProviderResult({"length": float(len(each.completion))}))
                for each in request.candidates
            ),
        )


def catalog():
    return {"counted": RewardProviderSpec(factory=Counted, revision=said("revision") or "1", terms=("length",))}
"""

OPTIONS = ("--catalog", "counted.py:catalog", "--reward", "counted", "--group-size", "2")


def calls(folder: Path) -> list[str]:
    """The groups that the provider was asked for since the last look."""
    file = folder / "calls"
    asked = file.read_text().split() if file.exists() else []
    file.unlink(missing_ok=True)
    return asked


def kept(folder: Path) -> list[str]:
    """The groups whose rows an unfinished output holds, each once, in their order."""
    length = json.loads((folder / ".out.jsonl.journal").read_text())["length"]
    rows = (folder / ".out.jsonl.partial").read_bytes()[:length].splitlines()
    return list(dict.fromkeys(json.loads(row)["group_id"] for row in rows))


@pytest.fixture
def score(command: Callable[..., Any], written: Callable[..., Path]) -> Callable[..., Any]:
    """Scores sixty groups of two to `out.jsonl`."""
    written("counted.py", COUNTED)
    rows = [
        {
            "group_id": f"g{group}",
            "trajectory_id": f"g{group}/{at}",
            "completion": "x" * (group * at % 7),
            "again": group,
        }
        for group in range(GROUPS)
        for at in range(2)
    ]
    written("rollouts.jsonl", rows)

    def run(*more: str, out: str = "out.jsonl", rollouts: str = "rollouts.jsonl") -> Any:
        return command("score", rollouts, *OPTIONS, "--out", out, *more)

    return run


@pytest.fixture
def broken(score: Callable[..., Any], written: Callable[..., Path]) -> Any:
    """A run that a broken contract ended in its fortieth group."""
    fails_at = written("fails_at", "g40")
    done = score()
    fails_at.unlink()
    return done


def test_a_failure_keeps_what_was_scored(broken: Any, score: Callable[..., Any], tmp_path: Path) -> None:
    """The groups before the failure are kept, a resumed run does not ask for them again, and the bytes are the same."""
    assert broken.returncode == 3
    assert (
        "What was scored is kept beside out.jsonl: go on with --resume, or begin anew with --restart" in broken.stderr
    )
    assert not {"out.jsonl", "metrics.json", "out.identity.json"} & {each.name for each in tmp_path.iterdir()}
    asked, safe = calls(tmp_path), kept(tmp_path)
    assert asked == [f"g{at}" for at in range(41)]
    # No stretch is longer than all before it together and one: the one that failed began behind the twentieth group.
    assert safe == asked[: len(safe)]
    assert len(safe) >= 20
    assert (tmp_path / ".out.jsonl.partial").stat().st_mode & 0o777 == 0o600
    resumed = score("--resume")
    assert (resumed.returncode, resumed.stderr) == (0, "")
    assert f"{len(safe)} groups were scored by the interrupted run" in resumed.stdout
    assert calls(tmp_path) == [f"g{at}" for at in range(len(safe), GROUPS)]
    assert score(out="calm/out.jsonl").returncode == 0
    for name in ("out.jsonl", "metrics.json", "out.identity.json"):
        assert (tmp_path / name).read_bytes() == (tmp_path / "calm" / name).read_bytes()
    assert not [each.name for each in tmp_path.iterdir() if each.name.startswith(".")]


def test_a_second_failure_keeps_more(
    broken: Any, score: Callable[..., Any], written: Callable[..., Path], tmp_path: Path
) -> None:
    """A resumed run that fails again keeps what it added, and fails where it failed."""
    first = kept(tmp_path)
    written("fails_at", "g57")
    assert score("--resume").returncode == 3
    second = kept(tmp_path)
    assert second[: len(first)] == first
    assert len(second) > len(first)
    again = score("--resume")
    assert again.returncode == 3
    assert "group 'g57'" in again.stderr


def test_a_leftover_is_not_overwritten_unasked(broken: Any, score: Callable[..., Any], tmp_path: Path) -> None:
    """Without `--resume` or `--restart` nothing is scored and nothing changed, since it may have been paid for."""
    calls(tmp_path)
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir() if each.is_file()}
    done = score()
    assert done.returncode == 2
    assert done.stdout == ""
    assert "unfinished results of an earlier run stand beside out.jsonl" in done.stderr
    assert "go on with --resume, or throw them away with --restart" in done.stderr
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir() if each.is_file()} == before


def test_restart_begins_anew(broken: Any, score: Callable[..., Any], tmp_path: Path) -> None:
    """With `--restart` every group is asked for again, and nothing of the earlier run is left."""
    calls(tmp_path)
    done = score("--restart")
    assert done.returncode == 0
    assert "interrupted run" not in done.stdout
    assert calls(tmp_path) == [f"g{at}" for at in range(GROUPS)]
    assert not [each.name for each in tmp_path.iterdir() if each.name.startswith(".")]


@pytest.mark.parametrize("mode", ["--resume", "--restart"])
def test_with_nothing_to_go_on_with_it_begins(score: Callable[..., Any], tmp_path: Path, mode: str) -> None:
    """Either mode begins where there is no interrupted run, over a finished output too."""
    for _ in range(2):
        done = score(mode)
        assert (done.returncode, done.stderr) == (0, "")
        assert "interrupted run" not in done.stdout
        assert calls(tmp_path) == [f"g{at}" for at in range(GROUPS)]


def test_an_old_output_stays_until_the_new_one_is_whole(
    score: Callable[..., Any], written: Callable[..., Path], tmp_path: Path
) -> None:
    """A failing run leaves the files of the one before as they were."""
    assert score().returncode == 0
    names = ("out.jsonl", "metrics.json", "out.identity.json")
    before = {name: (tmp_path / name).read_bytes() for name in names}
    written("fails_at", "g40")
    assert score("--weight", "length=2").returncode == 3
    assert {name: (tmp_path / name).read_bytes() for name in names} == before


@pytest.mark.parametrize(
    ("flags", "field"),
    [
        (("--weight", "length=2"), "stage.weights.length: recorded 1.0 (float), now 2.0 (float)"),
        (("--estimator", "group_mean"), "stage.estimator: recorded 'group_norm' (str), now 'group_mean' (str)"),
        (("--namespace", "val"), "namespace: recorded 'train' (str), now 'val' (str)"),
        (("--on-unavailable", "drop_group"), "stage.on_unavailable: recorded 'fail' (str), now 'drop_group' (str)"),
        (("--max-dropped-fraction", "0.5"), "stage.max_dropped_fraction: recorded 0.1 (float), now 0.5 (float)"),
        (("--reward", "constant"), "stage.needs.constant: recorded nothing, now"),
        (("--prompt-column", "p"), "columns.prompt: recorded 'prompt' (str), now 'p' (str)"),
        (("--group-by", "again"), "grouping: recorded 'group-id' (str), now"),
        (("--group-size", "3"), "stage.group_size: recorded 2 (int), now 3 (int)"),
    ],
)
def test_another_identity_is_refused(
    broken: Any, score: Callable[..., Any], tmp_path: Path, flags: tuple[str, ...], field: str
) -> None:
    """A resume under other settings names the field with both values, asks for no group and leaves all as it was."""
    before = kept(tmp_path)
    calls(tmp_path)
    done = score("--resume", *flags)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "was begun under other settings" in done.stderr
    assert field in done.stderr
    assert calls(tmp_path) == []
    assert kept(tmp_path) == before
    assert score("--resume").returncode == 0


def test_another_revision_is_refused(
    broken: Any, score: Callable[..., Any], written: Callable[..., Path], tmp_path: Path
) -> None:
    """So is a provider that says it has changed, and a catalog file whose text has."""
    written("revision", "2")
    done = score("--resume")
    assert done.returncode == 2
    assert "stage.providers[0].revision" in done.stderr
    assert "'1'" in done.stderr
    assert "'2'" in done.stderr
    (tmp_path / "revision").unlink()
    written("counted.py", COUNTED + "\n")
    done = score("--resume")
    assert done.returncode == 2
    assert "stage.providers[0].catalog" in done.stderr


def test_other_rollouts_are_refused(
    broken: Any, score: Callable[..., Any], written: Callable[..., Path], tmp_path: Path
) -> None:
    """A file that has changed, or another file, is not what the kept scores belong to."""
    text = (tmp_path / "rollouts.jsonl").read_text()
    written("rollouts.jsonl", text.replace("xxx", "yyy"))
    done = score("--resume")
    assert done.returncode == 2
    assert "rollouts.sha256: recorded" in done.stderr
    assert "rollouts.bytes" not in done.stderr
    written("rollouts.jsonl", text)
    written("others.jsonl", text)
    done = score("--resume", rollouts="others.jsonl")
    assert done.returncode == 2
    assert "rollouts.name: recorded 'rollouts.jsonl' (str), now 'others.jsonl' (str)" in done.stderr
    assert score("--resume").returncode == 0


def test_every_difference_is_named(broken: Any, score: Callable[..., Any]) -> None:
    """One error has all of them."""
    done = score("--resume", "--weight", "length=2", "--prompt-column", "p")
    fields = [line.split(":")[0].strip() for line in done.stderr.splitlines()[1:]]
    assert fields == ["stage_sha256", "stage.weights.length", "columns.prompt"]


def test_settings_that_decide_no_score_may_change(broken: Any, score: Callable[..., Any], tmp_path: Path) -> None:
    """How many groups are in flight and where the metrics go is no part of the identity."""
    assert score("--resume", "--groups-in-flight", "1", "--metrics", "elsewhere/m.json").returncode == 0
    assert (tmp_path / "elsewhere/m.json").is_file()
    assert not (tmp_path / "metrics.json").exists()


def test_dropped_groups_are_not_asked_again(
    score: Callable[..., Any], written: Callable[..., Path], tmp_path: Path
) -> None:
    """Above the ceiling a resume ends the same way, at no cost, and says so; `--restart` asks for all."""
    written("down", " ".join(f"g{at}" for at in range(7)))
    drop = ("--on-unavailable", "drop_group")
    # 7 of 60 is above 0.1.
    done = score(*drop)
    assert done.returncode == 4
    assert "7 of 60 groups could not be scored" in done.stderr
    assert "--resume does not ask for dropped groups again: score the file anew, with --restart" in done.stderr
    written("down", "")
    calls(tmp_path)
    again = score("--resume", *drop)
    assert (again.returncode, again.stderr) == (4, done.stderr)
    assert calls(tmp_path) == []
    assert score("--restart", *drop).returncode == 0
    assert len(calls(tmp_path)) == GROUPS


def test_a_run_under_way_is_left_alone(score: Callable[..., Any], tmp_path: Path) -> None:
    """Two runs never write one output: the second is refused in each mode, and the first goes on."""
    with Journal.begin(tmp_path / "out.jsonl", {}) as first:
        for mode in ((), ("--resume",), ("--restart",)):
            done = score(*mode)
            assert done.returncode == 2
            assert "is being written by another process" in done.stderr
        first.append(b"row\n")
        first.checkpoint(1)
        first.finish()
    assert (tmp_path / "out.jsonl").read_bytes() == b"row\n"
    assert calls(tmp_path) == []


def test_a_journal_of_something_else_is_refused(score: Callable[..., Any], tmp_path: Path) -> None:
    """A leftover that this command did not write is never taken for its own."""
    with Journal.begin(tmp_path / "out.jsonl", {"other": 1}) as other:
        other.append(b"row\n")
        other.checkpoint(1)
    done = score("--resume")
    assert done.returncode == 2
    assert "other: recorded 1 (int), now nothing" in done.stderr
    assert calls(tmp_path) == []


def test_rows_at_fault_keep_what_was_scored(
    score: Callable[..., Any], written: Callable[..., Path], tmp_path: Path
) -> None:
    """A broken row far down the file ends the run as a broken contract, after the groups before it were kept."""
    text = (tmp_path / "rollouts.jsonl").read_text().splitlines(keepends=True)
    written("rollouts.jsonl", "".join([*text[:101], "{oops\n", *text[102:]]))
    done = score()
    assert done.returncode == 3
    assert "row 102: is no valid JSON" in done.stderr
    assert len(kept(tmp_path)) >= 25
    assert set(calls(tmp_path)) >= set(kept(tmp_path))
