# SPDX-License-Identifier: Apache-2.0
"""An interrupt on one rank, at any line: the others never hang, and the batch is whole on every rank or on none."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import posttrain.execution.ranks
import posttrain.rewards
from execution.ranks.rank_threads import batch_of, exchanges, worker_for
from interrupting import interrupt_at
from posttrain.errors import RewardUnavailableError
from posttrain.execution.ranks import score_on_ranks
from posttrain.rewards import RewardGroupRequest


def _tell(request: RewardGroupRequest) -> list[float]:
    return [float(len(each.trajectory_id)) + place for place, each in enumerate(request.candidates)]


def _interrupted(package: Any, line: int) -> bool:
    """Score on two ranks with an interrupt on the first before the n-th line of `package`; whether it came."""
    places = exchanges(2, timeout_s=30)
    batch = batch_of(2, 2)
    parts = [batch[:1], batch[1:]]
    workers = [worker_for(exchange, _tell) for exchange in places]
    ends: list[Any] = [None]

    def other() -> None:
        try:
            score_on_ranks(workers[1], places[1], parts[1])
        except RewardUnavailableError as error:
            ends[0] = error

    thread = threading.Thread(target=other, daemon=True)
    thread.start()
    came = interrupt_at(package, lambda: score_on_ranks(workers[0], places[0], parts[0]), line)
    thread.join(10)
    assert not thread.is_alive(), f"line {line}: the other rank hangs"
    written = [[each.advantage is not None for each in part] for part in parts]
    assert written in ([[True], [True] * 3], [[False], [False] * 3]), f"line {line}: {written} {ends[0]}"
    if ends[0] is not None:
        assert "rank 0: went away because of KeyboardInterrupt" in str(ends[0])
    return came


@pytest.mark.parametrize("package", [posttrain.execution.ranks, posttrain.rewards], ids=["ranks", "rewards"])
def test_an_interrupt_at_any_line(package: Any) -> None:
    """Whole on both ranks or on neither, and the other rank ends at once either way."""
    # An interrupt before the transaction has begun is a rank that does not come: the bound ends that.
    line = 7 if package is posttrain.execution.ranks else 1
    while _interrupted(package, line):
        line += 1 if package is posttrain.execution.ranks else 7
    assert line > 100
