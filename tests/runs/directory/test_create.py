# SPDX-License-Identifier: Apache-2.0
"""A run's folder comes into being whole, is never taken over by accident, and has one writer at a time."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.runs.directory import RecordedRun, RunDirectory

Begin = Callable[..., RunDirectory]


def test_a_new_run_holds_its_config_and_provenance(begin: Begin, tmp_path: Path) -> None:
    """Nothing is recorded yet, config and provenance are there, and nothing lies beside the folder."""
    with begin() as run:
        assert run.path == tmp_path / "runs" / "first"
        assert sorted(each.name for each in run.path.iterdir()) == [
            ".lock",
            "config.toml",
            "metrics.jsonl",
            "provenance.json",
            "scored",
        ]
        assert run.last_step is None
    found = RecordedRun(tmp_path / "runs" / "first")
    assert found.config_text == "rl.group_size = 2\n"
    assert (found.steps, found.metrics(), found.state, found.last_step) == ([], {}, None, None)
    assert [each.name for each in (tmp_path / "runs").iterdir()] == ["first"]


def test_who_may_read_what(begin: Begin, batch: Any) -> None:
    """Rollouts are their owner's alone; config, provenance, metrics and state are as the umask says."""
    old = os.umask(0o022)
    try:
        with begin() as run:
            file = run.record_step(1, batch.trajectories, batch.outcome)
            run.save_state(1, batch.worker.stage_identity, batch.report)
            modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in run.path.iterdir() if each.is_file()}
    finally:
        os.umask(old)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert modes == {
        ".lock": 0o600,
        "config.toml": 0o644,
        "metrics.jsonl": 0o644,
        "provenance.json": 0o644,
        "state.json": 0o644,
    }


@pytest.mark.parametrize("there", ["a run", "a closed run", "a file", "a folder with a file", "a dangling link"])
def test_what_is_there_is_never_taken_over(
    begin: Begin, tmp_path: Path, tree: Callable[[Path], dict[str, bytes | None]], there: str
) -> None:
    """A name that is taken, by whatever, is refused with both ways out, and nothing is changed."""
    target = tmp_path / "runs" / "first"
    target.parent.mkdir(exist_ok=True)
    held = begin() if "run" in there else None
    if there == "a closed run" and held is not None:
        held.close()
    elif there == "a file":
        target.write_text("mine")
    elif there == "a folder with a file":
        target.mkdir()
        (target / "notes.txt").write_text("mine")
    elif there == "a dangling link":
        target.symlink_to("nowhere")
    before = tree(tmp_path)
    with pytest.raises(
        RewardConfigError, match=r"runs/first is there already: go on with that run, or give the new one another name"
    ):
        begin()
    assert tree(tmp_path) == before
    if held is not None:
        held.close()


def test_an_empty_folder_is_filled(begin: Begin, tmp_path: Path) -> None:
    """A folder that somebody made for the run, and put nothing into, is used."""
    (tmp_path / "runs" / "first").mkdir(parents=True)
    with begin() as run:
        assert (run.path / "provenance.json").is_file()


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", ".hidden", "-x", "a b", "ä", "x" * 201, "a\n", None, 3], ids=repr
)
def test_a_name_is_one_plain_segment(begin: Begin, name: Any, tmp_path: Path) -> None:
    """What could leave the folder, hide or be read as an option is refused."""
    with pytest.raises(RewardConfigError, match="name of a run: expected up to 200 letters"):
        begin(name)
    assert not (tmp_path / "runs").exists()


def test_a_second_writer_is_refused(begin: Begin) -> None:
    """While a run is open, in this process or another, nobody else can write to it; afterwards anybody can."""
    program = (
        "import sys\nfrom posttrain.errors import RewardConfigError\n"
        "from posttrain.runs.directory import RunDirectory\n"
        "try:\n    RunDirectory.open(sys.argv[1])\nexcept RewardConfigError as error:\n    print(error)\n"
        "else:\n    print('opened')\n"
    )

    def elsewhere(path: Path) -> str:
        done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
        return done.stdout

    with begin() as run:
        with pytest.raises(RewardConfigError, match=r"first is being written by another process: wait for it"):
            RunDirectory.open(run.path)
        assert "is being written by another process" in elsewhere(run.path)
        assert RecordedRun(run.path).steps == []
    assert elsewhere(run.path) == "opened\n"
    RunDirectory.open(run.path).close()


def test_two_processes_that_begin_one_run(begin: Begin, tmp_path: Path) -> None:
    """The folder in the making is locked too, so the second one is told, and what a killed one left is taken over."""
    staging = tmp_path / "runs" / ".first.new"
    (staging / "scored").mkdir(parents=True)
    (staging / "scored" / "half").write_text("left by a kill")
    (staging / ".provenance.json.tmp").write_text("left by a kill")
    with begin() as run:
        assert sorted(each.name for each in run.path.rglob("*")) == [
            ".lock",
            "config.toml",
            "metrics.jsonl",
            "provenance.json",
            "scored",
        ]
    held = begin("second")
    (tmp_path / "runs" / ".third.new").symlink_to(held.path)
    with pytest.raises(RewardConfigError, match=r"\.third\.new is being written by another process"):
        begin("third")
    held.close()


@pytest.mark.parametrize("path", ["nowhere", "file", "empty"])
def test_what_is_no_run_is_not_opened(tmp_path: Path, path: str) -> None:
    """A missing folder, a file and a folder without provenance are no runs, for writer and reader."""
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    for opener in (RunDirectory.open, RecordedRun):
        with pytest.raises(RewardConfigError, match=rf"{path} is no run: it has no provenance.json"):
            opener(tmp_path / path)
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_refusal_of_the_file_system_is_named(begin: Begin, tmp_path: Path) -> None:
    """A file in the place of the folder of all runs is told."""
    (tmp_path / "runs").touch()
    with pytest.raises(RewardConfigError, match=r"the folder .*/runs can't be made"):
        begin()


def test_opening_sweeps_out_what_a_kill_left(begin: Begin) -> None:
    """Temporaries of half-written files and a folder on its way out are gone; files of others are not."""
    run = begin()
    run.close()
    for name in (".state.json.tmp", "scored/.step-00000001.jsonl.tmp", "notes.txt", ".mine.tmp"):
        (run.path / name).write_text("x")
    (run.path / "validation" / ".step-00000002.removed" / "deep").mkdir(parents=True)
    (run.path / "validation" / "step-00000001").mkdir()
    RunDirectory.open(run.path).close()
    assert sorted(each.relative_to(run.path).as_posix() for each in run.path.rglob("*")) == [
        ".lock",
        ".mine.tmp",
        "config.toml",
        "metrics.jsonl",
        "notes.txt",
        "provenance.json",
        "scored",
        "validation",
        "validation/step-00000001",
    ]


def test_a_closed_run_refuses(begin: Begin, batch: Any) -> None:
    """After close, which may come twice, nothing can be recorded any more."""
    run = begin()
    run.close()
    run.close()
    works: list[Callable[[], object]] = [
        lambda: run.record_step(1, batch.trajectories, batch.outcome),
        lambda: run.save_state(1, batch.worker.stage_identity, batch.report),
        lambda: run.load_state(batch.worker.stage_identity),
        lambda: run.rewind(0),
    ]
    for work in works:
        with pytest.raises(RewardContractError, match="the run 'first' is closed: open it again"):
            work()
    with pytest.raises(RewardContractError, match="was closed"):
        run.metrics.write(1, {})
    with RunDirectory.open(run.path) as again:
        assert repr(again) == "RunDirectory('first', last step None)"
