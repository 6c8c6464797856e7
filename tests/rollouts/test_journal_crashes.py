# SPDX-License-Identifier: Apache-2.0
"""A writer that is killed anywhere leaves a checkpoint that can be read, and the next run ends with the same bytes."""

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

PIECES = [b"one\n", b"", b"3" * 2_400_000, b"four\n"]

# A child is forked for each system call of the work and kills itself, by SIGKILL, right before that call. The profiler
# sees every call into the interpreter's C modules, so no call is left out and none of our own code is replaced.
_DRIVER = """
import json, os, shutil, signal, sys
from pathlib import Path
from posttrain.rollouts.journal import Journal

PIECES = [b"one\\n", b"", b"3" * 2_400_000, b"four\\n"]
work, base = sys.argv[1], Path(sys.argv[2])

def write(journal):
    with journal:
        for at in range(journal.state or 0, len(PIECES)):
            journal.append(PIECES[at])
            journal.checkpoint(at + 1)
        journal.finish()

def begin(target):
    write(Journal.begin(target, "header"))

def resume(target):
    write(Journal.resume(target, "header") or Journal.begin(target, "header"))

def overwrite(target):
    write(Journal.begin(target, "header", overwrite=True))

def discard(target):
    Journal.resume(target, "header").discard()

def prepare(target):
    target.write_bytes(b"old")
    if work != "begin":
        with Journal.begin(target, "header") as journal:
            journal.append(PIECES[0])
            journal.checkpoint(1)
            journal.append(b"lost" * 300_000)
            journal._write()

def killed(target, at):
    child = os.fork()
    if child:
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])
    calls = 0
    def count(frame, event, called):
        nonlocal calls
        if event == "c_call" and getattr(called, "__module__", None) in ("posix", "fcntl", "_io"):
            calls += 1
            if calls == at:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.setprofile(count)
    globals()[work](target)
    sys.setprofile(None)
    os._exit(0)

at, more = 0, True
while more:
    at += 1
    folder = base / str(at)
    folder.mkdir()
    target = folder / "out"
    prepare(target)
    more = killed(target, at)
    seen = {"at": at, "target": len(target.read_bytes()), "killed": more}
    try:
        journal = Journal.resume(target, "header")
        seen["state"] = None if journal is None else [journal.state, journal.is_finished]
        if journal is None:
            journal = Journal.begin(target, "header")
        write(journal)
    except Exception as error:
        seen["error"] = str(error)
    seen["whole"] = target.read_bytes() == b"".join(PIECES)
    seen["left"] = sorted(each.name for each in folder.iterdir())
    shutil.rmtree(folder)
    print(json.dumps(seen), flush=True)
"""


def crashes(quick_path: Path, work: str) -> list[dict[str, Any]]:
    """What was found after a kill before each system call of the work; the last one was not killed."""
    done = subprocess.run(
        [sys.executable, "-c", _DRIVER, work, str(quick_path)], capture_output=True, text=True, check=True
    )
    seen = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["killed"] for each in seen] == [True] * (len(seen) - 1) + [False]
    return seen


def _stage(seen: dict[str, Any]) -> int:
    """How far the work had come: checkpoints 0 to 4, 5 with the target in its place, 6 without a journal."""
    is_whole = seen["target"] == len(b"".join(PIECES))
    if seen["state"] is None:
        return 6 if is_whole else 0
    state, is_finished = seen["state"]
    assert is_finished == is_whole
    return 5 if is_finished else state or 0


@pytest.mark.parametrize(("work", "calls", "first"), [("begin", 60, 0), ("resume", 60, 1), ("overwrite", 60, 1)])
def test_a_kill_before_any_system_call(quick_path: Path, work: str, calls: int, first: int) -> None:
    """Whichever call the kill comes before, a checkpoint no older than the last is there and the work can be ended."""
    seen = crashes(quick_path, work)
    assert len(seen) > calls
    for each in seen[:-1]:
        assert "error" not in each
        assert each["whole"]
        assert each["left"] == ["out"]
        assert each["target"] in {len(b"old"), len(b"".join(PIECES))}
    # Checkpoints only ever grow, from the one that was there to the last; then the target is in its place, at first
    # with a journal that is left over, at last without.
    stages = [_stage(each) for each in seen[:-1]]
    rising = stages[stages.index(0) :] if work == "overwrite" else stages
    assert stages[0] == first
    assert rising == sorted(rising)
    assert set(rising) == set(range(rising[0], 7))


def test_a_kill_while_discarding(quick_path: Path) -> None:
    """A discard that was cut short leaves the work, or nothing, or a partial that is refused by name."""
    for each in crashes(quick_path, "discard"):
        refused = "error" in each
        assert each["whole"] != refused
        if refused:
            assert "has no journal beside it" in each["error"]


_WRITER = """
import sys
from pathlib import Path
from posttrain.rollouts.journal import Journal

target = Path(sys.argv[1])
with Journal.resume(target, "header") or Journal.begin(target, "header") as journal:
    print("begun", flush=True)
    for at in range(journal.state or 0, 4000):
        for line in range(5):
            journal.append(b"%d %d %s\\n" % (at, line, b"x" * (at * 7919 % 1000)))
        journal.checkpoint(at + 1)
    journal.finish()
"""


def test_kills_at_random_moments(quick_path: Path) -> None:
    """A writer that is killed again and again, and resumed each time, ends with the bytes of an uninterrupted one."""
    calm, stormy = quick_path / "calm" / "out", quick_path / "stormy" / "out"
    for target in (calm, stormy):
        target.parent.mkdir()
    command = [sys.executable, "-c", _WRITER]
    subprocess.run([*command, str(calm)], check=True, capture_output=True)
    moments = random.Random(20)
    kills = 0
    for _ in range(12):
        with subprocess.Popen([*command, str(stormy)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"begun\n"
            time.sleep(moments.uniform(0, 0.03))
            writer.kill()
            writer.communicate()
        kills += writer.returncode != 0
    subprocess.run([*command, str(stormy)], check=True, capture_output=True)
    # The whole work takes longer than the moments before all kills together.
    assert kills >= 8
    assert stormy.read_bytes() == calm.read_bytes()
    assert [each.name for each in stormy.parent.iterdir()] == ["out"]
