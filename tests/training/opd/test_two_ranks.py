# SPDX-License-Identifier: Apache-2.0
"""Distillation on two real ranks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from execution.ranks.torchrun import torchrun

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parent / "distil_program.py"


def test_ranks_share_one_loss_and_one_error(tmp_path: Path) -> None:
    """The loss is the mean over the tokens of both ranks; a divergence that is not finite on one ends both alike."""
    done = torchrun(PROGRAM, str(tmp_path), "full", "sampled", "not finite", ranks=2)
    assert done.returncode == 0, done.stderr
    both = [json.loads(file.read_text()) for file in sorted(tmp_path.glob("rank-*.json"))]
    for form in ("full", "sampled"):
        ends = [each[form] for each in both]
        assert ends[0]["tokens"] < ends[1]["tokens"] == 36
        assert ends[0]["num_items"] == ends[1]["num_items"] == ends[0]["tokens"] + ends[1]["tokens"]
        assert ends[0]["weights"] == ends[1]["weights"]
        assert ends[0]["divergence"] == ends[1]["divergence"]
        # What is logged is the mean of the ranks' losses, as the gradient is that of their gradients. The first value
        # is of weights that both still share.
        assert ends[0]["loss"] == pytest.approx(ends[0]["divergence"], rel=1e-4)
    errors = [each["not finite"]["error"] for each in both]
    assert errors[0] == errors[1]
    assert errors[0][0::2] == ["RewardContractError", 0]
    assert re.match(r"rank 1: the reverse KL to the teacher is no finite number for \d+ of 36 tokens", errors[0][1])
