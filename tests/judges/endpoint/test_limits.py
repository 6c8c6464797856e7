# SPDX-License-Identifier: Apache-2.0
"""Limits of calls in flight, calls per minute and tokens per minute, as the server sees them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import pytest

from posttrain.judges.endpoint import JudgeCall, JudgeEndpoint, runtime
from posttrain.judges.endpoint.limits import Limiter, Limits, Turn
from posttrain.testing import FakeJudgeServer, JudgeReply

Opened: TypeAlias = Callable[..., JudgeEndpoint]
Calls: TypeAlias = Callable[..., list[JudgeCall[float]]]
Work: TypeAlias = Callable[[Limiter], Coroutine[Any, Any, None]]

WINDOW = 1.5
"""Seconds that stand in for a minute."""
SLACK = 0.5
"""Seconds by which the server may see one call later than another that was let go in the same moment."""


@pytest.fixture
def short_minute(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Limiters that are made meanwhile take `WINDOW` for a minute."""
    monkeypatch.setattr(runtime, "Limiter", lambda: Limiter(WINDOW))
    yield
    runtime._process.limiters.clear()


def _most_in_a_window(times: list[float]) -> int:
    return max(sum(start <= at < start + WINDOW - SLACK for at in times) for start in times)


def test_calls_in_flight_are_filled_and_never_exceeded(server: FakeJudgeServer, opened: Opened, calls: Calls) -> None:
    """100 calls from five threads and two judges of one endpoint: 7 at once at the server, no more and no fewer."""
    judges = [opened(concurrency=7), opened("another content", concurrency=9)]
    server.hold()
    with ThreadPoolExecutor(5) as pool:
        asked = [pool.submit(judges[number % 2].ask, calls(20)) for number in range(5)]
        server.wait_for(7)
        server.release()
        assert [len(each.result()) for each in asked] == [20] * 5
    assert (len(server.requests), server.peak_in_flight) == (100, 7)


def test_another_model_or_key_has_limits_of_its_own(
    server: FakeJudgeServer, opened: Opened, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of three fills its own limit at the same time."""
    monkeypatch.setenv("MY_KEY", "secret-of-mine")
    judges = [opened(concurrency=2), opened(concurrency=3, model="other"), opened(concurrency=4, credential="MY_KEY")]
    server.hold()
    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(judge.ask, calls(10)) for judge in judges]
        server.wait_for(9)
        server.release()
        assert [len(each.result()) for each in asked] == [10] * 3
    assert server.peak_in_flight == 9


def test_a_judge_that_closes_takes_its_limit_along(server: FakeJudgeServer, opened: Opened, calls: Calls) -> None:
    """The smaller limit holds as long as whoever declared it is open."""
    wide, narrow = opened(concurrency=4), opened(concurrency=1)
    wide.ask(calls(8))
    assert server.peak_in_flight == 1
    narrow.close()
    server.hold()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(wide.ask, calls(8))
        server.wait_for(12)
        server.release()
        asked.result()
    assert server.peak_in_flight == 4


def test_those_who_wait_for_a_judge_that_closes_go_on_at_once(
    server: FakeJudgeServer, opened: Opened, calls: Calls
) -> None:
    """With a call a minute four calls would take three minutes; they are let go as soon as that limit is gone."""
    wide, narrow = opened(), opened(requests_per_minute=1)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(wide.ask, calls(4))
        server.wait_for(1)
        narrow.close()
        assert len(asked.result(timeout=45)) == 4


def test_a_call_that_waits_to_retry_holds_no_place(server: FakeJudgeServer, opened: Opened, calls: Calls) -> None:
    """With one call in flight at most, nine are answered while the first waits for its Retry-After."""
    server.script(JudgeReply.error(429, retry_after="1"))
    answers = opened(concurrency=1).ask(calls(10))
    assert [each.calls for each in answers] == [2, *[1] * 9]
    assert server.requests[-1].text == "question 0"


@pytest.mark.usefixtures("short_minute")
def test_calls_per_minute_at_the_server(server: FakeJudgeServer, opened: Opened, calls: Calls) -> None:
    """30 calls at 10 a "minute", retries included: no stretch of a "minute" sees more than 10."""
    server.script(*[JudgeReply.error(503)] * 5)
    judge = opened(requests_per_minute=10, max_retries=20)
    assert len(judge.ask(calls(25))) == 25
    times = [request.at for request in server.requests]
    assert len(times) == 30
    assert _most_in_a_window(times) <= 10
    assert 2 * WINDOW <= times[-1] - times[0] + SLACK < 20 * WINDOW


@pytest.mark.usefixtures("short_minute")
def test_the_last_minute_outlives_a_judge(server: FakeJudgeServer, opened: Opened, calls: Calls) -> None:
    """Closing and opening again gives no second ration."""
    for _ in range(3):
        judge = opened(requests_per_minute=5)
        judge.ask(calls(5))
        judge.close()
    assert _most_in_a_window([request.at for request in server.requests]) <= 5


@pytest.mark.usefixtures("short_minute")
def test_tokens_per_minute_at_the_server(server: FakeJudgeServer, opened: Opened, calls: Calls) -> None:
    """A call is estimated at more than 90 tokens and takes 15: after the first ones, 10 go out in a "minute" of 160."""
    judge = opened(tokens_per_minute=160, max_tokens=50, concurrency=1)
    judge.ask(calls(20))
    assert _most_in_a_window([request.at for request in server.requests]) <= 10
    assert server.requests[-1].at - server.requests[0].at < 20 * WINDOW


class _Clock:
    """A clock for a limiter alone."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def _taken(limiter: Limiter, tokens: int) -> Turn | None:
    """A turn, if there is one to be had now."""
    task = asyncio.create_task(limiter.turn(tokens))
    for _ in range(3):
        await asyncio.sleep(0)
    if task.done():
        return task.result()
    task.cancel()
    await asyncio.wait([task])
    return None


async def _turn(limiter: Limiter, tokens: int) -> Turn:
    turn = await _taken(limiter, tokens)
    assert turn is not None
    return turn


def test_estimated_tokens_are_corrected() -> None:
    """Of 100 tokens 90 are set aside, 20 were used: 80 are free; once the minute is over, all are."""
    clock = _Clock()

    async def work() -> None:
        limiter = Limiter(now=clock)
        limiter.join("it", Limits(10, None, 100))
        first = await limiter.turn(90)
        assert await _taken(limiter, 20) is None
        limiter.release(first, 20)
        limiter.release(await _turn(limiter, 80))
        assert await _taken(limiter, 1) is None
        clock.now += 60.0
        third = await _turn(limiter, 100)
        # What it took is told after it was forgotten: nothing is counted twice.
        clock.now += 61.0
        fourth = await _turn(limiter, 100)
        limiter.release(third, 5000)
        limiter.release(fourth, 40)
        assert await _taken(limiter, 60) is not None

    asyncio.run(work())


def test_a_call_larger_than_a_minute_goes_out_alone() -> None:
    """It can't be kept within the limit; it waits until no other is remembered, and is not stuck for good."""
    clock = _Clock()

    async def work() -> None:
        limiter = Limiter(now=clock)
        limiter.join("it", Limits(10, None, 100))
        assert await _taken(limiter, 1) is not None
        assert await _taken(limiter, 5000) is None
        clock.now += 60.0
        assert await _taken(limiter, 5000) is not None
        assert await _taken(limiter, 1) is None

    asyncio.run(work())


def test_the_smallest_of_several_limits_holds() -> None:
    """Each kind by itself; None is no limit."""
    limiter = Limiter()
    limiter.join("a", Limits(8, None, 100))
    limiter.join("b", Limits(4, 50, None))
    limiter.join("c", Limits(6, 70, 200))
    assert limiter._limits == Limits(4, 50, 100)
    limiter.leave("b")
    assert limiter._limits == Limits(6, 70, 100)


def test_a_cancelled_wait_gives_its_place_back() -> None:
    """Whether it was still waiting or had just been given its turn: the next in line has it."""

    async def work() -> None:
        limiter = Limiter()
        limiter.join("it", Limits(1))
        first = await limiter.turn(1)
        waiting = [asyncio.create_task(limiter.turn(1)) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        limiter.release(first)
        # The second has just been given its turn, and has not run since.
        waiting[1].cancel()
        assert isinstance(await waiting[2], Turn)
        assert [each.cancelled() for each in waiting] == [True, True, False]
        assert limiter._in_flight == 1

    asyncio.run(work())


def test_retries_come_first() -> None:
    """Their deadline runs, so they are let go before those that have not begun; among themselves in order."""

    async def work() -> None:
        limiter, order = Limiter(), list[str]()
        limiter.join("it", Limits(1))
        held = await limiter.turn(1)

        async def one(name: str, *, urgent: bool) -> None:
            turn = await limiter.turn(1, urgent=urgent)
            order.append(name)
            limiter.release(turn)

        tasks = [
            asyncio.create_task(one(name, urgent=urgent))
            for name, urgent in (("a", False), ("b", False), ("x", True), ("y", True))
        ]
        await asyncio.sleep(0)
        limiter.release(held)
        await asyncio.gather(*tasks)
        assert order == ["x", "y", "a", "b"]

    asyncio.run(work())
