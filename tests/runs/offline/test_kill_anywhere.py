# SPDX-License-Identifier: Apache-2.0
"""A run of `posttrain score` that is killed before any one of its system calls can be resumed to the same end."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# A child is forked for each system call from the first that touches an output to the end of the process, and kills
# itself, by SIGKILL, right before that call. The profiler sees every call into the interpreter's C modules, so no call
# is left out and none of our own code is replaced. Another child then resumes, as a new process would.
_DRIVER = """
import json, os, shutil, signal, sys
from pathlib import Path
from posttrain.cli import main

base, options, mode = Path(sys.argv[1]), sys.argv[2:-1], sys.argv[-1]
os.chdir(base)

def child(arguments, kill_at):
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    calls, begun = 0, False
    def count(frame, event, called):
        nonlocal calls, begun
        if event == "call":
            begun = begun or frame.f_code.co_name == "_journal"
        elif event == "c_call" and begun and getattr(called, "__module__", None) in ("posix", "fcntl", "_io"):
            calls += 1
            if calls == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    with open(base / "told", "w") as told:
        os.dup2(told.fileno(), 2)
    sys.argv = ["posttrain", "score", *arguments]
    sys.setprofile(count if kill_at else None)
    try:
        main()
    except SystemExit as end:
        os._exit(end.code or 0)
    os._exit(99)

def files(folder):
    return {each.name: each.read_text() for each in folder.iterdir()}

# Once in this process, so that the children need not import what the command imports when it runs.
started = [os.dup(1), os.dup(2)]
try:
    sys.argv = ["posttrain", "score", *options]
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    main()
except SystemExit as end:
    assert not end.code
os.dup2(started[0], 1)

at, code = 0, -signal.SIGKILL
while code == -signal.SIGKILL:
    at += 1
    folder = base / str(at)
    folder.mkdir()
    arguments = [*options, "--out", f"{at}/out.jsonl"]
    code = child(arguments, at)
    seen = {"at": at, "code": code, "found": sorted(files(folder))}
    seen["resumed"] = child([*arguments, f"--{mode}"], 0)
    seen["told"] = (base / "told").read_text()
    seen["files"] = files(folder)
    shutil.rmtree(folder)
    print(json.dumps(seen), flush=True)
"""

OPTIONS = ("--reward", "length", "--group-size", "8", "--catalog", "rewards.py:catalog")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "mode"),
    [("group_norm", "resume"), ("group_mean_batch_std", "resume"), ("group_mean_batch_std", "restart")],
)
def test_a_kill_before_any_system_call(
    quick_path: Path, lengths: str, many_groups: Callable[[Path, int], Path], estimator: str, mode: str
) -> None:
    """Whichever call the kill comes before, the final renames and the second pass among them, nothing is lost.

    The scored rows are there only when metrics and identity are, and a resumed or restarted run leaves exactly the
    three files of an uninterrupted one.
    """
    many_groups(quick_path / "rollouts.jsonl", 3)
    driver = [sys.executable, "-c", _DRIVER, str(quick_path), "rollouts.jsonl", *OPTIONS, "--estimator", estimator]
    done = subprocess.run([*driver, mode], capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    seen: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["code"] for each in seen] == [-9] * (len(seen) - 1) + [0]
    assert len(seen) > 60
    wanted = seen[-1]["files"]
    assert sorted(wanted) == ["metrics.json", "out.identity.json", "out.jsonl"]
    assert wanted["out.jsonl"].count("\n") == 24
    for each in seen:
        assert (each["at"], each["resumed"], each["told"]) == (each["at"], 0, "")
        assert each["files"] == wanted
        if "out.jsonl" in each["found"]:
            assert set(each["found"]) >= set(wanted)
    # Killed early, late and in between: before anything was there, with only a partial, with the rows in place.
    found = [set(each["found"]) for each in seen]
    assert found[0] == set()
    assert any(".out.jsonl.partial" in each and "out.jsonl" not in each for each in found)
    assert any("out.jsonl" in each and ".out.jsonl.journal" in each for each in found)
    assert any(name.endswith("-tmp") for each in found for name in each)
