# SPDX-License-Identifier: Apache-2.0
"""The command on real data: the solutions that were published with GSM8K, and what their publishers found of them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def test_every_published_label_agrees(shell: Callable[..., Any], repository: Path, tmp_path: Path) -> None:
    """One `posttrain score` command over 1,319 groups of 4 gives each of 5,276 solutions its published label."""
    script = repository.parent / "shared" / "data" / "gsm8k" / "prepare.py"
    if not script.is_file():
        pytest.skip("the published solutions are not beside this checkout")
    subprocess.run([sys.executable, "-I", str(script), str(tmp_path)], capture_output=True, timeout=120, check=True)
    done = shell(
        "score", "rollouts.jsonl", "--reward", "gsm8k", "--group-size", "4", "--prompt-column", "question",
        "--reference-column", "answer", "--out", "scored.jsonl",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    labels = json.loads((tmp_path / "labels.json").read_text(encoding="utf-8"))
    rows = [json.loads(line) for line in (tmp_path / "scored.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(rows) == len(labels) == 5276
    assert {row["trajectory_id"]: row["reward"]["gsm8k"] for row in rows} == {
        trajectory_id: float(label) for trajectory_id, label in labels.items()
    }
    # 2,001 of them are right, as the labels say.
    assert sum(labels.values()) == 2001
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["train/reward/final/mean"] == 2001 / 5276
    assert metrics["train/group/count"] == 1319.0
