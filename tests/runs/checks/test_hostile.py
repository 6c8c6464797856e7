# SPDX-License-Identifier: Apache-2.0
"""Catalogs that would take preflight down with them: it reports, in time, and leaves nothing of them behind."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from posttrain.errors import RewardConfigError
from posttrain.runs.checks import PreflightReport
from posttrain.runs.checks.processes import run_fresh

Flight = Callable[..., PreflightReport]
Found = Callable[[PreflightReport], dict[str, tuple[str, ...]]]


def _left(folder: Path) -> list[int]:
    """The processes that a misdeed left, by the files in which it wrote them down."""
    return [int(file.name.removeprefix("left.")) for file in folder.glob("left.*")]


def _wait_for_the_end_of(pids: list[int]) -> None:
    deadline = time.monotonic() + 10
    while any(_is_alive(pid) for pid in pids):
        assert time.monotonic() < deadline, pids
        time.sleep(0.02)


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.parametrize(
    ("misdeed", "line"),
    [
        ("dies", r"a fresh process was killed by SIGKILL while the catalog was loaded"),
        ("leaves", r"a fresh process ended with exit code 0 before it answered while provider 'it' was constructed"),
        ("becomes_another", r"a fresh process ended with exit code 0 before it answered while the catalog was loaded"),
        ("crashes", r"a fresh process was killed by SIGSEGV while the catalog was loaded"),
        ("scribbles", r"a fresh process wrote an answer that can't be read while the catalog was loaded"),
        ("closes_everything", r"a fresh process ended with exit code 1 before it answered while the catalog was .*"),
    ],
)
def test_a_catalog_that_ends_its_process(flight: Flight, found: Found, misdeed: str, line: str) -> None:
    """Only the check of the fresh process fails, with how it ended and at which step; this process is left alone."""
    report = flight(misdeed)
    failures = {name: lines for name, lines in found(report).items() if not name.startswith("?")}
    assert list(failures) == ["fresh process"]
    assert re.fullmatch(line, failures["fresh process"][0])
    skipped = {check.name for check in report.checks if check.verdict == "skipped"}
    assert {"catalog", "constructs", "stage", "deterministic", "no socket", "no GPU", "light", "no secret"} <= skipped
    assert report.exit_code == 2


def test_a_crash_tells_its_line(flight: Flight, found: Found) -> None:
    """Of a memory fault the innermost Python line is told."""
    lines = found(flight("crashes"))["fresh process"]
    assert any(re.search(r"hostile\.py\", line \d+ in crashes", line) for line in lines)


def test_a_catalog_that_hangs(flight: Flight, found: Found) -> None:
    """The deadline ends it, and the line at which it hung is told."""
    started = time.monotonic()
    report = flight("hangs", deadline_s=1.5)
    assert time.monotonic() - started < 10
    assert list(found(report)) == ["fresh process"]
    lines = found(report)["fresh process"]
    assert lines[0] == "a fresh process gave no answer within 1.5 s while the catalog was loaded"
    assert any(re.search(r"hostile\.py\", line \d+ in hangs", line) for line in lines)


def test_what_it_printed_is_told(flight: Flight, found: Found) -> None:
    """The last words of a process that died are in the report, as lines of their own."""
    lines = found(flight("prints_and_dies"))["fresh process"]
    assert lines[1:] == ("the last that it printed:", "  the last words")


def test_prints_are_kept_apart(flight: Flight, found: Found, capfd: pytest.CaptureFixture[str]) -> None:
    """What a catalog prints, also past Python's streams, neither disturbs an answer nor comes out of the processes."""
    assert found(flight("prints")) == {}
    out, err = capfd.readouterr()
    # This process, which is the caller's own, resolves the catalog twice: for preflight, and once more for the stage.
    assert sorted(out.splitlines()) == ["chatter by print"] * 2 + ["chatter by write"] * 2
    assert err == "chatter on stderr\n" * 2


@pytest.mark.parametrize("misdeed", ["process_that_stays", "fork_that_stays", "fork_in_c_that_stays"])
def test_a_process_that_is_left_is_reaped(flight: Flight, found: Found, tmp_path: Path, misdeed: str) -> None:
    """A child that would live for a minute, and may hold every descriptor, fails its check and is gone afterwards."""
    started = time.monotonic()
    report = flight(misdeed)
    assert time.monotonic() - started < 20
    assert list(found(report)) == ["no process"]
    assert any("is still running" in line for line in found(report)["no process"])
    pids = _left(tmp_path)
    # Two fresh processes, two rounds each; this process did not try it.
    assert len(pids) == 4
    _wait_for_the_end_of(pids)


def test_a_child_that_holds_the_pipe_of_a_dead_process(flight: Flight, found: Found, tmp_path: Path) -> None:
    """The end of the process is noticed although the pipe of its answer stays open."""
    started = time.monotonic()
    report = flight("fork_in_c_then_dies")
    assert time.monotonic() - started < 20
    assert list(found(report)) == ["fresh process"]
    assert found(report)["fresh process"][0].startswith("a fresh process was killed by SIGKILL")
    pids = _left(tmp_path)
    assert len(pids) == 2
    _wait_for_the_end_of(pids)


def test_a_fork_does_not_answer(flight: Flight, found: Found) -> None:
    """Of a catalog that forks and lets both go on, the process that was asked answers; the fork fails its check."""
    report = flight("fork_that_goes_on")
    assert list(found(report)) == ["no process"]
    assert any("os.fork (" in line for line in found(report)["no process"])
    folder = str(Path(__file__).parent / "providers")
    for fresh in run_fresh("hostile.py:fork_that_goes_on", folder, ["it"], deadline_s=60):
        assert fresh.answer is not None
        assert {made.revision for made in fresh.answer.constructions} == {"parent"}


def test_a_fork_among_many_programs(flight: Flight, found: Found) -> None:
    """Of many programs the first fifty are told; a fork that comes after them is not lost among them."""
    lines = found(flight("many_programs_and_a_fork"))["no process"]
    assert sum("no-such-program" in line for line in lines) == 50
    assert sum("os.fork (" in line for line in lines) == 1


def test_an_interrupt_reaps_too(configured: Callable[..., object], tmp_path: Path, source: Path) -> None:
    """When preflight itself is interrupted, its fresh processes end with it."""
    folder = Path(__file__).parent / "providers"
    program = (
        "import os, signal, threading\n"
        "from posttrain.runs.checks.processes import run_fresh\n"
        "threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        f"run_fresh('hostile.py:remembers_and_hangs', {str(folder)!r}, ['it'], deadline_s=60)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert "KeyboardInterrupt" in done.stderr
    pids = _left(tmp_path)
    assert len(pids) == 2
    _wait_for_the_end_of(pids)


def test_no_descriptor_is_left(flight: Flight) -> None:
    """Whatever a fresh process does, this one has as many open descriptors afterwards as before."""
    flight("sound")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for misdeed in ("sound", "dies", "fork_in_c_that_stays"):
        flight(misdeed)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_an_interpreter_that_is_not_there(tmp_path: Path) -> None:
    """A process that can't be started is an error of the set-up, not of the catalog."""
    with pytest.raises(RewardConfigError, match="a fresh process can't be started: No such file or directory"):
        run_fresh(None, None, ["gsm8k"], deadline_s=5, python=str(tmp_path / "python"))


def test_an_installation_that_is_broken(tmp_path: Path) -> None:
    """An interpreter without Posttrain gives no answer, and says why."""
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    bare.chmod(0o755)
    for fresh in run_fresh(None, None, ["gsm8k"], deadline_s=20, python=str(bare)):
        assert fresh.answer is None
        assert fresh.ended == "ended with exit code 1 before it answered"
        assert "No module named" in fresh.printed
