# SPDX-License-Identifier: Apache-2.0
"""`posttrain score` in worker processes: the same files, and a scorer that never returns ends the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

LOOPING = """
from functools import partial
from posttrain.rewards import RewardProviderResult, RewardProviderSpec, map_candidates

def score(candidate, context):
    while candidate.completion == "loop":
        pass
    return RewardProviderResult({"length": float(len(candidate.completion))})

def catalog():
    return {"length": RewardProviderSpec(factory=partial(map_candidates, score), revision="1", terms=("length",))}
"""


def test_the_scored_file_is_the_same(shell: Callable[..., Any], pairs: Callable[..., Path], tmp_path: Path) -> None:
    """Byte for byte, the identity beside it too, with a catalog file in the working directory."""
    (tmp_path / "looping.py").write_text(LOOPING)
    pairs("a", "bb", "ccc", "dddd")
    base = ("score", "pairs.jsonl", "--catalog", "looping.py:catalog", "--reward", "length", "--group-size", "2")
    for out, more in (("here.jsonl", ()), ("there.jsonl", ("--backend", "processes", "--workers", "2"))):
        done = shell(*base, "--out", out, *more)
        assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "here.jsonl").read_bytes() == (tmp_path / "there.jsonl").read_bytes()
    assert (tmp_path / "here.identity.json").read_bytes() == (tmp_path / "there.identity.json").read_bytes()


def test_a_scorer_that_never_returns_is_given_up_and_kept_for_replay(
    shell: Callable[..., Any], pairs: Callable[..., Path], tmp_path: Path
) -> None:
    """Exit code 4, the candidate by name, and the failing request beside the scores."""
    (tmp_path / "looping.py").write_text(LOOPING)
    pairs("a", "bb", "ccc", "loop")
    done = shell(
        *("score", "pairs.jsonl", "rl.reward_catalog=looping.py:catalog", "rl.reward=length", "rl.group_size=2"),
        *("rl.reward_stage.backend=processes", "rl.reward_stage.processes.group_timeout_s=1"),
        *("--workers", "2", "--out", "scored.jsonl"),
    )
    assert done.returncode == 4
    assert "did not score the group within 1 s" in done.stderr
    assert "looping.py" in done.stderr
    kept = json.loads((tmp_path / "scored.jsonl.failed-request.json").read_text())
    assert "loop" in json.dumps(kept)


def test_workers_without_the_backend_are_refused(command: Callable[..., Any], pairs: Callable[..., Path]) -> None:
    """Two processes that nobody starts would be a surprise."""
    pairs("a", "bb")
    done = command("score", "pairs.jsonl", "--reward", "nonempty", "--group-size", "2", "--workers", "2")
    assert done.returncode == 2
    assert "give --backend processes with it" in done.stderr
