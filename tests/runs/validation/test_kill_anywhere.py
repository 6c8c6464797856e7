# SPDX-License-Identifier: Apache-2.0
"""A validation that is killed before any one of its system calls is resumed to the same end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# A child is forked for each system call between the beginning of the validation and the end of the process, and kills
# itself, by SIGKILL, right before that call. The profiler sees every call into the interpreter's C modules, so no call
# is left out and none of our own code is replaced. Another child then resumes, as a new process would. The validation
# is made in Python and not by the command, whose preflight keeps nothing and would be nearly all of the time.
_DRIVER = """
import json, os, shutil, signal, sys, traceback
from pathlib import Path
from posttrain.rollouts.source import RolloutSource
from posttrain.runs import HeldOutValidation, load_config

base, mode = Path(sys.argv[1]), sys.argv[2]
os.chdir(base)
KEYS = ["rl.reward=exact_match", "rl.group_size=2", "rl.validation.n_generation=2"]

def validate(folder, how):
    config = load_config(None, KEYS)
    rollouts = RolloutSource("rollouts.jsonl", config.rollout_columns(), needs=["reference"])
    with HeldOutValidation(config) as validation:
        if how == "resume" and (folder / "scores.identity.json").exists():
            pending = validation.resume(folder, step=0, rollouts=rollouts)
        else:
            pending = validation.begin(rollouts, 0, folder, overwrite=how == "restart")
        pending.complete()

def child(out, how, kill_at):
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    calls, begun = 0, False
    def count(frame, event, called):
        nonlocal calls, begun
        if event == "call" and frame.f_code.co_qualname == "HeldOutValidation.begin":
            begun = True
        elif event == "return" and frame.f_code.co_qualname == "HeldOutValidation.begin":
            # What follows does not depend on what was there before.
            begun = mode == "resume"
        elif event == "c_call" and begun and getattr(called, "__module__", None) in ("posix", "fcntl", "_io"):
            calls += 1
            if calls == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    with open(base / "told", "w") as told:
        os.dup2(told.fileno(), 2)
    sys.setprofile(count if kill_at else None)
    try:
        validate(Path(out), how)
    except BaseException:
        sys.setprofile(None)
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(99)
    os._exit(0)

def files(folder):
    return {each.name: each.read_text() for each in folder.iterdir()} if folder.exists() else {}

at, code = 0, None
while code != 0:
    at += 1
    folder = base / str(at)
    if mode == "restart":
        shutil.copytree(base / "earlier", folder)
    code = child(str(at), "restart" if mode == "restart" else "begin", at)
    seen = {"at": at, "code": code, "found": sorted(files(folder))}
    seen["resumed"] = child(str(at), mode, 0)
    seen["told"] = (base / "told").read_text()
    seen["files"] = files(folder)
    shutil.rmtree(folder)
    print(json.dumps(seen), flush=True)
"""

NAMES = {"rollouts.jsonl", "scores.identity.json", "scores.jsonl", "metrics.json", "result.json"}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["resume", "restart"])
def test_a_kill_before_any_system_call(quick_path: Path, mode: str) -> None:
    """Whichever call the kill comes before, the next run leaves exactly the files of an uninterrupted one.

    The scores are there only when metrics and result are; a record only with its rollouts, in their place or beside it.
    """
    rows = [
        {"group_id": f"g{group}", "trajectory_id": f"g{group}/{at}", "completion": str(group * at), "reference": "0"}
        for group in range(3)
        for at in range(2)
    ]
    (quick_path / "rollouts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if mode == "restart":
        # An earlier, complete validation of other rollouts is thrown away.
        (quick_path / "others.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:4]))
        earlier = [sys.executable, "-m", "posttrain", "validate", "rl.reward=exact_match", "rl.group_size=2"]
        options = ["rl.validation.n_generation=2", "--rollouts", "others.jsonl", "--out", "earlier"]
        subprocess.run([*earlier, *options], cwd=quick_path, capture_output=True, check=True, timeout=60)
    driver = [sys.executable, "-c", _DRIVER, str(quick_path), mode]
    done = subprocess.run(driver, capture_output=True, text=True, check=False, timeout=250)
    assert done.returncode == 0, done.stderr
    seen: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["code"] for each in seen] == [-9] * (len(seen) - 1) + [0]
    assert len(seen) > (80 if mode == "resume" else 40)
    wanted = seen[-1]["files"]
    assert set(wanted) == NAMES
    assert [json.loads(line)["reward"]["final"] for line in wanted["scores.jsonl"].splitlines()] == [1, 1, 1, 0, 1, 0]
    for each in seen:
        assert (each["at"], each["resumed"], each["told"]) == (each["at"], 0, "")
        assert each["files"] == wanted
        found = set(each["found"])
        if "scores.jsonl" in found:
            assert found >= NAMES
        if mode == "resume" and "scores.identity.json" in found:
            assert found & {"rollouts.jsonl", ".rollouts.jsonl.new"}
    # Killed early, late and in between.
    everything = [set(each["found"]) for each in seen]
    assert any("scores.identity.json" not in found for found in everything) == (mode == "resume")
    assert any(".rollouts.jsonl.new" in found and "scores.identity.json" in found for found in everything)
    assert any(".scores.jsonl.partial" in found for found in everything)
    assert any("result.json" in found and "scores.jsonl" not in found for found in everything)
    assert mode == "restart" or any({"scores.jsonl", ".scores.jsonl.journal"} <= found for found in everything)
