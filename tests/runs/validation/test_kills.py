# SPDX-License-Identifier: Apache-2.0
"""SIGKILL at fifty random moments: no score is lost or doubled, and no file is left that can't be read."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

STORMS, KILLS_EACH = 5, 10
GROUPS = 220

# The judge takes its time, so that a run outlives several checkpoints; every seventh group it can't answer.
_JUDGE = """
import time
from posttrain.rewards import (
    RewardCandidateResult, RewardGroupResult, RewardProviderResult, RewardProviderSpec, RewardUnavailableError,
)


class Judge:
    def evaluate(self, request):
        time.sleep(0.008)
        number = int(request.group_id[1:])
        if number % 7 == 3:
            raise RewardUnavailableError("503")
        return RewardGroupResult(
            request.group_id,
            tuple(
                RewardCandidateResult(each.trajectory_id, RewardProviderResult({"task": float(each.completion)}))
                for each in request.candidates
            ),
        )


def catalog():
    return {"judge": RewardProviderSpec(factory=Judge, revision="1", terms=("task",), semantic_identity={"v": 1})}
"""

# Forks a process for each run, so that a run does not begin with a second of imports, and kills it at a
# random moment; whatever it left is looked at before the next run goes on. An output that came to its end is followed
# by another one, until so many were killed. The validation is made in Python and not by the command, whose preflight
# keeps nothing and would take most of the kills.
_DRIVER = """
import json, os, random, signal, sys, time, traceback
from pathlib import Path
from posttrain.rollouts.source import RolloutSource
from posttrain.runs import HeldOutValidation, load_config

base, seed, kills = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
os.chdir(base)
chance = random.Random(seed)
KEYS = [
    "rl.reward=judge", "rl.reward_catalog=judge.py:catalog", "rl.group_size=4", "rl.validation.n_generation=2",
    "rl.reward_stage.on_unavailable=drop_group", "rl.reward_stage.max_dropped_fraction=0.2",
]

def validate(folder):
    config = load_config(None, KEYS)
    rollouts = RolloutSource("rollouts.jsonl", config.rollout_columns())
    with HeldOutValidation(config) as validation:
        if (folder / "scores.identity.json").exists():
            validation.resume(folder, step=10, rollouts=rollouts).complete()
        else:
            validation.begin(rollouts, 10, folder).complete()

def begin(out):
    pid = os.fork()
    if pid:
        return pid
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        validate(Path(out))
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(99)
    os._exit(0)

def end(pid, seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def look(folder):
    # Whatever stands under a final name is whole.
    names = {each.name for each in folder.iterdir()} if folder.exists() else set()
    for name in names & {"scores.identity.json", "metrics.json", "result.json"}:
        json.loads((folder / name).read_bytes())
    for name in names & {"rollouts.jsonl", "scores.jsonl"}:
        text = (folder / name).read_bytes()
        assert text.endswith(b"\\n")
        for line in text.splitlines():
            json.loads(line)
    if "scores.jsonl" in names:
        assert {"metrics.json", "result.json", "scores.identity.json", "rollouts.jsonl"} <= names
    journal = folder / ".scores.jsonl.journal"
    return json.loads(journal.read_bytes())["length"] if journal.exists() else 0

number, killed, saved = 0, 0, 0
while True:
    out = f"storm{seed}-{number}"
    code = end(begin(out), chance.uniform(0, 2.4) if killed < kills else 120)
    saved = max(saved, look(Path(out)))
    if code == -signal.SIGKILL:
        killed += 1
        continue
    print(json.dumps({"out": out, "code": code, "killed": killed, "saved": saved}), flush=True)
    number += 1
    if code or killed >= kills:
        break
"""


def _uninterrupted(base: Path) -> subprocess.Popen[bytes]:
    options = [
        "rl.reward=judge", "rl.reward_catalog=judge.py:catalog", "rl.group_size=4", "rl.validation.n_generation=2",
        "rl.reward_stage.on_unavailable=drop_group", "rl.reward_stage.max_dropped_fraction=0.2",
    ]  # fmt: skip
    where = ["--rollouts", "rollouts.jsonl", "--step", "10", "--out", "calm"]
    command = [sys.executable, "-m", "posttrain", "validate", *options, *where]
    return subprocess.Popen(command, cwd=base, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.slow
def test_kills_at_random_moments(quick_path: Path, files_of: Callable[[Path], dict[str, bytes]]) -> None:
    """After fifty kills each output has every candidate once, and each of its files is that of an uninterrupted run."""
    (quick_path / "judge.py").write_text(_JUDGE)
    rows = [
        {"group_id": f"g{group}", "trajectory_id": f"g{group}/{at}", "completion": str((group + at) % 3 / 2)}
        for group in range(GROUPS)
        for at in range(2)
    ]
    (quick_path / "rollouts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    storms = [
        subprocess.Popen(
            [sys.executable, "-c", _DRIVER, str(quick_path), str(seed), str(KILLS_EACH)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for seed in range(STORMS)
    ]
    calm = _uninterrupted(quick_path)
    _, told = calm.communicate(timeout=120)
    assert (calm.returncode, told) == (0, b"")
    wanted = files_of(quick_path / "calm")
    scores = [json.loads(line) for line in wanted["scores.jsonl"].splitlines()]
    assert [row["trajectory_id"] for row in scores] == [row["trajectory_id"] for row in rows]
    # Groups 3, 10, ..., 213: 31 of 220.
    assert sum("dropped_because" in row for row in scores) == 2 * 31
    seen: list[dict[str, Any]] = []
    for storm in storms:
        out, told = storm.communicate(timeout=200)
        assert (storm.returncode, told) == (0, b""), told.decode()
        runs = [json.loads(line) for line in out.splitlines()]
        assert runs[-1]["killed"] == KILLS_EACH
        seen += runs
    for run in seen:
        assert run["code"] == 0
        assert files_of(quick_path / run["out"]) == wanted
    # Runs were taken up in the middle, not only from the beginning.
    assert any(run["saved"] > 0 for run in seen)
