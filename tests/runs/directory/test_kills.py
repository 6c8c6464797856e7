# SPDX-License-Identifier: Apache-2.0
"""A recorder that is killed loses nothing that it was told is recorded, doubles no step and leaves no unreadable file.

A run is recorded as a trainer does it: candidates, metrics and state of each step, and after a kill it goes on from
the last state, rewinding what came after it. The state is saved at every second step.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_RECORDER = """
import json, os, random, signal, sys, time
from pathlib import Path
from posttrain.rewards import RewardWorker, RewardUnavailableError
from posttrain.runs.directory import Provenance, RecordedRun, RunDirectory
from posttrain.schema import Observation, Trajectory
from posttrain.testing import ScriptedProvider

base = Path(sys.argv[1])
worker = RewardWorker(
    catalog={"scripted": ScriptedProvider({"g2": RewardUnavailableError("down")}, otherwise=[1.0, 0.0]).spec()},
    reward="scripted", group_size=2, on_unavailable="drop_group", max_dropped_fraction=0.5,
)

def batch(step):
    return [
        Trajectory(
            trajectory_id=f"{step}/{name}/{at}", group_id=name, obs=Observation(id=name, prompt="p" * 50),
            completion="c" * 2000,
        )
        for name in ("g1", "g2") for at in range(2)
    ]

provenance = Provenance.of(worker.stage)

def record(path, last, tell):
    # What a trainer does when it is started: begin, or go on from the last checkpoint.
    if (path / "provenance.json").exists():
        run = RunDirectory.resume(path, config_text="again", provenance=provenance)
        state = run.load_state(worker.stage_identity)
        first = 1 if state is None else state.step + 1
        run.rewind(first - 1)
    else:
        run = RunDirectory.create(path.parent, path.name, config_text="first", provenance=provenance)
        first = 1
    with run:
        for step in range(first, last + 1):
            trajectories = batch(step)
            outcome = worker.compute(trajectories)
            run.record_step(step, trajectories, outcome)
            tell("candidates", step)
            run.metrics.write(step, {"x": step / 4, **outcome.report.metrics()})
            tell("metrics", step)
            if step % 2 == 0:
                run.save_state(step, worker.stage_identity, outcome.report)
                tell("state", step)

def look(path):
    # What a reader finds, whatever state the run is in.
    if not path.exists():
        return {"candidates": [], "metrics": [], "state": 0}
    found = RecordedRun(path)
    rows = list(found.candidates())
    for step in found.steps:
        assert [row.trajectory_id for row in rows if row.step == step] == [
            f"{step}/{name}/{at}" for name in ("g1", "g2") for at in range(2)
        ], step
    lines = [line.step for line in found.metric_lines()]
    assert len(lines) == len(set(lines)), lines
    assert found.config_text in ("first", "again")
    assert found.provenance.lineage == ()
    return {"candidates": found.steps, "metrics": lines, "state": 0 if found.state is None else found.state.step}

def told(data):
    last = {"candidates": [], "metrics": [], "state": 0}
    for line in data.decode().splitlines():
        kind, step = line.split()
        if kind == "state":
            last["state"] = int(step)
        else:
            last[kind].append(int(step))
    return last

def forked(path, last, before_call=None, seconds=None):
    # A child records, and is killed before a system call, or after so many seconds; gives what it told.
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        calls = 0
        def count(frame, event, called):
            nonlocal calls
            if event == "c_call" and getattr(called, "__module__", None) in ("posix", "fcntl", "_io"):
                calls += 1
                if calls == before_call:
                    os.kill(os.getpid(), signal.SIGKILL)
        def tell(kind, step):
            sys.setprofile(None)
            os.write(write, f"{kind} {step}\\n".encode())
            if before_call is not None:
                sys.setprofile(count)
        if before_call is not None:
            sys.setprofile(count)
        record(path, last, tell)
        sys.setprofile(None)
        os._exit(0)
    os.close(write)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    data = b""
    while piece := os.read(read, 65536):
        data += piece
    os.close(read)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1]), data
"""

_EVERY_CALL = (
    _RECORDER
    + """
at, more = 0, True
while more:
    at += 1
    path = base / str(at) / "run"
    path.parent.mkdir()
    if sys.argv[2] == "go on":
        forked(path, 3)
    more, data = forked(path, 4 if sys.argv[2] == "begin" else 5, before_call=at)
    seen = {"killed": more, "told": told(data), "found": look(path)}
    forked(path, 6)
    seen["end"] = look(path)
    seen["left"] = sorted(each.relative_to(path.parent).as_posix() for each in path.parent.rglob(".*"))
    print(json.dumps(seen), flush=True)
"""
)

_RANDOM = (
    _RECORDER
    + """
path = base / "run"
moments = random.Random(12)
found = look(path)
for _ in range(50):
    killed, data = forked(path, 100_000, seconds=moments.uniform(0.0, 0.04))
    new = told(data)
    # What came after the last state is rewound on purpose; everything else that was told has to be there.
    sure = {
        name: sorted({*(it for it in found[name] if it <= found["state"]), *new[name]})
        for name in ("candidates", "metrics")
    }
    sure["state"] = max(found["state"], new["state"])
    found = look(path)
    print(json.dumps({"killed": killed, "sure": sure, "found": found}), flush=True)
"""
)


@pytest.fixture
def quick_path() -> Iterator[Path]:
    """An empty folder in memory where the machine has one: syncing costs nothing there, and a kill is the same."""
    shared = Path("/dev/shm")  # noqa: S108  # the folder that is made in it is private
    usable = shared.is_dir() and os.access(shared, os.W_OK)
    with tempfile.TemporaryDirectory(dir=shared if usable else None) as folder:
        yield Path(folder)


def _seen(program: str, *arguments: str) -> list[dict[str, Any]]:
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(("work", "calls"), [("begin", 120), ("go on", 100)])
def test_a_kill_before_any_system_call(quick_path: Path, work: str, calls: int) -> None:
    """Whichever call the kill comes before, all that was told is there, and going on ends like an undisturbed run."""
    seen = _seen(_EVERY_CALL, str(quick_path), work)
    assert len(seen) > calls
    assert [each["killed"] for each in seen] == [True] * (len(seen) - 1) + [False]
    for each in seen:
        told, found = each["told"], each["found"]
        assert set(told["candidates"]) <= set(found["candidates"])
        assert set(told["metrics"]) <= set(found["metrics"])
        assert told["state"] <= found["state"]
        assert each["end"] == {"candidates": [*range(1, 7)], "metrics": [*range(1, 7)], "state": 6}
        # No temporary and no folder in the making is left beside the lock.
        assert each["left"] == ["run/.lock"]
    # The kills came all the way from the first call to the last.
    assert {len(each["found"]["metrics"]) for each in seen} == ({*range(5)} if work == "begin" else {2, 3, 4, 5})


def test_fifty_kills_at_random_moments(quick_path: Path) -> None:
    """Nothing that was told as recorded is lost, no step is there twice, and every file can be read, each time."""
    seen = _seen(_RANDOM, str(quick_path))
    assert [each["killed"] for each in seen] == [True] * 50
    for each in seen:
        sure, found = each["sure"], each["found"]
        for name in ("candidates", "metrics"):
            assert set(sure[name]) <= set(found[name])
            # No step is missing on the way, and one whose candidates are there may lack its metrics only at the end.
            assert found[name] == [*range(1, len(found[name]) + 1)]
        assert found["state"] >= sure["state"]
        assert found["state"] <= len(found["metrics"]) <= len(found["candidates"])
    # The run came ahead between the kills.
    assert seen[-1]["found"]["state"] > 10
