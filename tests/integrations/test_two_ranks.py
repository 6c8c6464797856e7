# SPDX-License-Identifier: Apache-2.0
"""Training on two real ranks: a group straddles them, and a rank that fails, hangs or dies ends both alike."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from execution.ranks.torchrun import torchrun
from integrations.train_program import BOUND_S

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parent / "train_program.py"


def _ends(folder: Path, *scenarios: str) -> tuple[int, list[dict[str, Any]], str]:
    done = torchrun(PROGRAM, str(folder), *scenarios, ranks=2)
    read = [json.loads(file.read_text()) for file in sorted(folder.glob("rank-*.json"))]
    assert not [each for each in read if Path(f"/proc/{each['pid']}").exists()], "a rank outlived its launcher"
    return done.returncode, read, done.stderr


def test_a_group_that_straddles_ranks_and_ranks_that_fail_hang_or_die(tmp_path: Path) -> None:
    """Both see one complete outcome, and the straddling group leaves the loss on both; both raise what one raises.

    A rank that hangs or dies ends the other by name, before any step; the one that hung raises the same when it wakes.
    """
    code, both, log = _ends(tmp_path, "straddles", "raises", "hangs", "dies")
    assert code == 1, log
    text = f"rank 1 did not come to the step 'evaluate' within {BOUND_S:g} s: hung or dead"
    assert [each["hangs"]["error"] for each in both] == [["RewardUnavailableError", text, 0]] * 2, log
    assert both[0]["dies"]["error"] == ["RewardUnavailableError", text, 0], log
    assert "dies" not in both[1]
    errors = [each["raises"]["error"] for each in both]
    assert errors[0] == errors[1]
    assert errors[0][0::2] == ["RewardContractError", 0]
    assert re.fullmatch(r"provider 'told', group 'train/1/1-\w{8}': rank 1: out of cheese", errors[0][1])
    ends = [each["straddles"] for each in both]
    assert ends[0]["batch"] == ends[1]["batch"] == {**ends[0]["own"], **ends[1]["own"]}
    assert ends[0]["logged"]["train/group/count"] == 3.0
    seen = {**ends[0]["rows"], **ends[1]["rows"]}
    assert len(seen) == 12
    dropped = {name for name, advantage in ends[0]["batch"].items() if advantage is None}
    places = [name.split("/")[2][0] + name[-1] for name in dropped]
    assert sorted(places) == ["10", "11", "12", "13"]
    assert [len(dropped & set(end["own"])) for end in ends] == [2, 2]
    for name, row in seen.items():
        expected = torch.tensor(ends[0]["batch"][name] or 0.0, dtype=torch.float32).item()
        assert row["advantage"] == expected
        assert row["in_loss"] == (0 if name in dropped else row["tokens"])
    # The count that the loss is divided by is that of both ranks, without the dropped group.
    assert {row["num_items"] for row in seen.values()} == {sum(row["in_loss"] for row in seen.values())}
