# SPDX-License-Identifier: Apache-2.0
"""`gsm8k` against the verdicts that were published with 5,276 model solutions of the GSM8K test set."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest


def test_every_published_verdict_agrees(score: Callable[..., float], repository: Path, tmp_path: Path) -> None:
    """Each of the solutions scores 1.0 exactly where its publishers found it correct: 2,001 times."""
    script = repository.parent / "shared" / "data" / "gsm8k" / "prepare.py"
    if not script.is_file():
        pytest.skip("the published solutions are not beside this checkout")
    done = subprocess.run(
        [sys.executable, "-I", str(script), str(tmp_path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    labels = json.loads((tmp_path / "labels.json").read_text(encoding="utf-8"))
    with (tmp_path / "rollouts.jsonl").open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    scores = {row["trajectory_id"]: score("gsm8k", row["answer"], row["completion"]) for row in rows}
    assert len(scores) == len(rows) == 5276
    assert {each: value for each, value in scores.items() if value != float(labels[each])} == {}
    assert sum(scores.values()) == 2001
