# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C: one line, the exit of an interrupted program, and work that can be gone on with."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import posttrain.runs.offline
from interrupting import interrupt_at
from posttrain.rewards import RewardWorker
from posttrain.rollouts.journal import Journal
from posttrain.rollouts.source import RolloutSource
from posttrain.runs.offline import score_file

NAMES = ("out.jsonl", "metrics.json", "out.identity.json")
INTERRUPTED = {130, -signal.SIGINT}

SLOW = """
import time
from functools import partial
from posttrain.rewards import ProviderExecution, RewardProviderResult, RewardProviderSpec, map_candidates


def score(seconds, candidate, context):
    time.sleep(seconds)
    return RewardProviderResult({"length": len(candidate.completion) / 10})


def spec(seconds, groups_in_flight):
    return RewardProviderSpec(
        factory=partial(map_candidates, partial(score, seconds)),
        revision="1",
        terms=("length",),
        execution=ProviderExecution(groups_in_flight=groups_in_flight),
    )


def catalog():
    return {"slow": spec(0.001, 1), "waits": spec(30, 4)}
"""


def command(provider: str, out: str, *more: str) -> list[str]:
    """The command line of a run over `rollouts.jsonl`."""
    return [
        sys.executable, "-m", "posttrain", "score", "rollouts.jsonl", "--catalog", "slow.py:catalog",
        "--reward", provider, "--group-size", "8", "--out", f"{out}/out.jsonl", *more,
    ]  # fmt: skip


def wait_for(path: Path, run: subprocess.Popen[str]) -> None:
    """Until the file is there."""
    until = time.monotonic() + 60
    while not path.exists():
        assert run.poll() is None
        assert time.monotonic() < until
        time.sleep(0.002)


def interrupted(folder: Path, provider: str, out: str, after: float, *more: str) -> tuple[int, str, str]:
    """Exit code and outputs of a run that is interrupted so many seconds after it has its output open."""
    with subprocess.Popen(
        command(provider, out, *more), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        wait_for(folder / out / ".out.jsonl.partial", run)
        time.sleep(after)
        run.send_signal(signal.SIGINT)
        try:
            out_text, err_text = run.communicate(timeout=20)
        finally:
            run.kill()
    return run.returncode, out_text, err_text


def files(folder: Path) -> dict[str, bytes]:
    """What lies in a folder."""
    return {each.name: each.read_bytes() for each in folder.iterdir()}


@pytest.mark.slow
def test_an_interrupted_run_goes_on(quick_path: Path, many_groups: Callable[[Path, int], Path]) -> None:
    """Wherever Ctrl-C comes, there is one line and no traceback, and `--resume` ends as an uninterrupted run does."""
    # 60 groups of 8 candidates, a millisecond each: at least half a second.
    many_groups(quick_path / "rollouts.jsonl", 60)
    (quick_path / "slow.py").write_text(SLOW)
    subprocess.run(command("slow", "calm"), cwd=quick_path, capture_output=True, check=True)
    wanted = files(quick_path / "calm")
    chance = random.Random(3)
    for at in range(4):
        code, out, err = interrupted(quick_path, "slow", f"storm{at}", chance.uniform(0, 0.2))
        assert code in INTERRUPTED
        assert out == ""
        lines = err.splitlines()
        assert lines[0] == "posttrain: interrupted"
        assert lines[1:] in (
            [],
            [f"What was scored is kept beside storm{at}/out.jsonl: go on with --resume, or begin anew with --restart"],
        )
        assert not set(NAMES) & set(files(quick_path / f"storm{at}"))
        # Twice interrupted is no different.
        interrupted(quick_path, "slow", f"storm{at}", 0.05, "--resume")
        done = subprocess.run(
            command("slow", f"storm{at}", "--resume"), cwd=quick_path, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert files(quick_path / f"storm{at}") == wanted


def test_calls_under_way_are_not_waited_for(quick_path: Path, many_groups: Callable[[Path, int], Path]) -> None:
    """A provider that waits for half a minute in four threads does not keep the user waiting."""
    many_groups(quick_path / "rollouts.jsonl", 8)
    (quick_path / "slow.py").write_text(SLOW)
    started = time.monotonic()
    code, out, err = interrupted(quick_path, "waits", "out", 0.3)
    assert time.monotonic() - started < 20
    assert code in INTERRUPTED
    assert out == ""
    # Nothing was scored yet, so there is nothing to go on with.
    assert err == "posttrain: interrupted\n"
    assert files(quick_path / "out") == {}


# An interrupt right before a file is closed leaves that to the last reference, which the interpreter warns of.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.parametrize("estimator", ["group_norm", "group_mean_batch_std"])
def test_an_interrupt_before_any_line(
    quick_path: Path, lengths: str, many_groups: Callable[[Path, int], Path], estimator: str
) -> None:
    """Before whichever executed line of the scoring the interrupt comes, a resumed run ends with the same files."""
    source = RolloutSource(many_groups(quick_path / "rollouts.jsonl", 4))
    catalog = f"{quick_path}/{lengths}"
    with RewardWorker(catalog=catalog, reward="length", group_size=8, estimator=estimator) as worker:
        stage = worker.stage
        score_file(stage, source, out=quick_path / "calm/out.jsonl")
        wanted = files(quick_path / "calm")
        line, came, leftovers = 0, True, set()
        while came:
            line += 1
            out = quick_path / str(line) / "out.jsonl"
            came = interrupt_at(posttrain.runs.offline, lambda out=out: score_file(stage, source, out=out), line)  # type: ignore[misc]  # bound
            leftovers.add(out.parent.is_dir() and Journal.leftover(out))
            if came:
                score_file(stage, source, out=out, resume=True)
            assert files(out.parent) == wanted
    assert line > 100
    assert leftovers == {True, False}
