# SPDX-License-Identifier: Apache-2.0
"""Ten thousand calls with every known fault: each ask is answered right or fails by name, and nothing is left."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from posttrain.errors import RewardUnavailableError
from posttrain.judges.config import JudgeConfig
from posttrain.judges.endpoint import JudgeCall, JudgeEndpoint
from posttrain.testing import FakeJudgeServer, JudgeReply, JudgeRequest

Calls: TypeAlias = Callable[..., list[JudgeCall[float]]]

ASKS, SIZE = 1250, 8
BAD_ASKS = 40
"""Asks of which one question is never answered well."""

FAULTS: tuple[JudgeReply, ...] = (
    JudgeReply.error(408),
    JudgeReply.error(409),
    JudgeReply.error(429),
    JudgeReply.error(429, retry_after="0"),
    JudgeReply.error(500),
    JudgeReply.error(503, retry_after="Tue, 15 Nov 1994 10:00:00 GMT"),
    JudgeReply(drop="before headers"),
    JudgeReply(drop="after headers"),
    JudgeReply(content='{"score": 99}', drop="mid body"),
    JudgeReply(body=b"<html>bad gateway</html>"),
    JudgeReply(body=b'{"choices": []}'),
    JudgeReply(body=b" " * 100_000),
    JudgeReply(content="", finish_reason="length"),
    JudgeReply(content='{"score": 0.', finish_reason="length"),
    JudgeReply(content=None, refusal="no"),
    JudgeReply(content="", finish_reason="content_filter"),
    JudgeReply(content=""),
    JudgeReply(content="I can't evaluate this."),
    JudgeReply(content='{"score": null}'),
    JudgeReply(content='{"score": 99}', delay_s=5.0),
)


def _script(faults: Counter[int]) -> Callable[[JudgeRequest], JudgeReply]:
    draw = random.Random(7)

    def reply(request: JudgeRequest) -> JudgeReply:
        number = int(request.text.rpartition(" ")[2])
        is_bad = number % SIZE == 3 and number // SIZE < BAD_ASKS
        if is_bad or draw.random() < 0.1:
            # The slow one comes seldom, since it takes a whole second each time.
            fault = draw.randrange(len(FAULTS) - (draw.random() < 0.9))
            faults[fault] += 1
            return FAULTS[fault]
        return JudgeReply(content=json.dumps({"score": number / 10_000}), delay_s=0.01)

    return reply


def _left() -> tuple[int, int]:
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()


@pytest.mark.slow
def test_ten_thousand_calls_with_every_fault(calls: Calls) -> None:
    """One in ten replies is bad: every ask gives its own eight numbers, or names the question that has none."""
    questions, faults = calls(ASKS * SIZE), Counter[int]()
    before = _left()
    with FakeJudgeServer(_script(faults)) as server:
        config = JudgeConfig(
            model="m",
            revision="1",
            base_url=server.base_url,
            connect_timeout_s=1.0,
            read_timeout_s=2.0,
            backoff_base_s=0.001,
            backoff_cap_s=0.01,
            max_retries=6,
            max_response_bytes=50_000,
        )
        endpoint = JudgeEndpoint(config, "content")
        endpoint.open()

        def ask(place: int) -> list[float] | RewardUnavailableError:
            try:
                return [each.value for each in endpoint.ask(questions[place * SIZE : (place + 1) * SIZE])]
            except RewardUnavailableError as error:
                return error

        with ThreadPoolExecutor(16) as pool:
            outcomes = list(pool.map(ask, range(ASKS)))
        loop: Any = endpoint._open.runtime.loop if endpoint._open is not None else None
        tasks = asyncio.run_coroutine_threadsafe(_running(), loop).result()
        endpoint.close()
        peak = server.peak_in_flight
    for place, outcome in enumerate(outcomes):
        numbers = range(place * SIZE, (place + 1) * SIZE)
        if isinstance(outcome, RewardUnavailableError):
            assert place < BAD_ASKS
            assert f"trajectory 't{place * SIZE + 3}'" in str(outcome)
            assert "after 7 attempts" in str(outcome)
        else:
            assert outcome == [number / 10_000 for number in numbers]
    assert sum(isinstance(each, RewardUnavailableError) for each in outcomes) == BAD_ASKS
    assert set(faults) == set(range(len(FAULTS)))
    assert sum(faults.values()) >= 1000
    assert tasks == 0
    assert 1 < peak <= 64
    assert _left() == before


async def _running() -> int:
    return sum(not task.done() for task in asyncio.all_tasks() if task is not asyncio.current_task())
