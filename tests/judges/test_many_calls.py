# SPDX-License-Identifier: Apache-2.0
"""Ten thousand calls with faults of every kind: each group is scored right, or dropped by name, and nothing leaks."""

from __future__ import annotations

import gc
import hashlib
import threading
from pathlib import Path

import pytest

from judging import batch, blocks_of, config_of
from posttrain.judges import RubricItem, RubricJudge
from posttrain.rewards import RewardWorker
from posttrain.testing import FakeJudgeServer, JudgeReply, JudgeRequest

GROUPS, SIZE = 1250, 8
JUDGE = RubricJudge(items=[RubricItem("score", "Its number.", scale=(0, 10_000))])

FAULTS: tuple[str | JudgeReply, ...] = (
    "no verdict",
    '{"score": -1}',
    '{"score": null}',
    '{"score": 1, "other": 1}',
    "",
    JudgeReply(content=None, refusal="no"),
    JudgeReply(content='{"score": 1', finish_reason="length"),
    JudgeReply(content='{"score": 1}', finish_reason="content_filter"),
    JudgeReply(body=b"<html>"),
    JudgeReply(body=b'{"choices": []}'),
    JudgeReply.error(408),
    JudgeReply.error(409),
    JudgeReply.error(429, retry_after="0"),
    JudgeReply.error(500),
    JudgeReply.error(503),
    JudgeReply(drop="before headers"),
    JudgeReply(drop="after headers"),
    JudgeReply(drop="mid body"),
)


def is_hopeless(number: int) -> bool:
    """Whether every answer about a candidate is bad: one in a thousand."""
    return number % 1000 == 999


class Judge:
    """Answers with the number in the response, but one time in ten with a fault."""

    def __init__(self) -> None:
        self.asked: dict[int, int] = {}
        self.faults = 0

    def __call__(self, request: JudgeRequest) -> str | JudgeReply:
        """Called in the server's one thread."""
        number = int(blocks_of(request.body["messages"][1]["content"])["response"])
        turn = self.asked[number] = self.asked.get(number, -1) + 1
        draw = hashlib.sha256(f"{number} {turn}".encode()).digest()
        if is_hopeless(number) or draw[0] < 26:
            self.faults += 1
            return FAULTS[draw[1] % len(FAULTS)]
        return f'{{"score": {number}}}'


def sockets() -> int:
    """Sockets that this process has open."""
    links = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            links.append(str(link.readlink()))
        except FileNotFoundError:  # the descriptor of the listing itself
            continue
    return sum(link.startswith("socket:") for link in links)


@pytest.mark.slow
def test_ten_thousand_calls_with_faults() -> None:
    """Only hopeless groups are dropped, no score is another candidate's, threads and sockets are as before."""
    trajectories = batch({f"g{at}": [str(SIZE * at + place) for place in range(SIZE)] for at in range(GROUPS)})
    threads, open_sockets = threading.active_count(), sockets()
    judge = Judge()
    with FakeJudgeServer(judge) as server:
        config = config_of(server, max_retries=8, backoff_cap_s=0.002)
        with RewardWorker(
            catalog={"judge": JUDGE.spec(config)}, reward="judge", group_size=SIZE, on_unavailable="drop_group"
        ) as worker:
            report = worker.score(trajectories)
    dropped = {each.group_id for each in trajectories if is_hopeless(int(each.completion or ""))}
    assert len(dropped) == GROUPS * SIZE // 1000
    for each in trajectories:
        expected = {} if each.group_id in dropped else {"score": float(each.completion or "")}
        assert {term: value for term, value in each.reward.items() if term != "final"} == expected
        assert (each.advantage is None) == (each.group_id in dropped)
    metrics = report.metrics()
    assert metrics["train/group/dropped_count"] == len(dropped)
    assert metrics["train/reward_provider/judge/retries"] > 800
    assert judge.faults > 900
    gc.collect()
    assert (threading.active_count(), sockets()) == (threads, open_sockets)
