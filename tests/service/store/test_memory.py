# SPDX-License-Identifier: Apache-2.0
"""Results in memory: how long they stay, and what goes when there are too many."""

from __future__ import annotations

import asyncio

from posttrain.service.store.memory import MemoryStore
from posttrain.service.store.results import Found, State
from posttrain.testing import ManualClock


def test_a_result_goes_from_pending_to_done_to_unknown() -> None:
    """Each reward of a uuid by itself; a result that expired is as one that never was."""

    async def run() -> list[Found]:
        clock = ManualClock()
        store = MemoryStore(ttl_s=10, most=10, clock=clock.monotonic)
        seen = [await store.find("u", "a")]
        await store.begin("u", ["a", "b"])
        seen += [await store.find("u", "a"), await store.find("u", "c"), await store.find("U", "a")]
        await store.finish("u", "a", b"1")
        clock.advance(9.9)
        seen += [await store.find("u", "a"), await store.find("u", "a"), await store.find("u", "b")]
        clock.advance(0.2)
        return [*seen, await store.find("u", "a"), await store.find("u", "b")]

    pending, unknown = State.PENDING, State.UNKNOWN
    assert asyncio.run(run()) == [unknown, pending, unknown, unknown, b"1", b"1", pending, unknown, pending]


def test_the_oldest_results_go_first_and_are_counted() -> None:
    """Pending ones never go, however many there are."""

    async def run() -> tuple[list[Found], list[int]]:
        forgotten: list[int] = []
        store = MemoryStore(ttl_s=10, most=2, forgotten=forgotten.append)
        await store.begin("u", [*"abcd"])
        for reward in "cab":
            await store.finish("u", reward, reward.encode())
        return [await store.find("u", reward) for reward in "abcd"], forgotten

    assert asyncio.run(run()) == ([b"a", b"b", State.UNKNOWN, State.PENDING], [1])


def test_a_result_never_changes() -> None:
    """The first one counts."""

    async def run() -> Found:
        store = MemoryStore(ttl_s=10, most=2)
        await store.finish("u", "a", b"1")
        await store.finish("u", "a", b"2")
        return await store.find("u", "a")

    assert asyncio.run(run()) == b"1"


def test_young_results_are_waited_for_until_they_are_pulled() -> None:
    """The wait ends with the pull, or when the result is no longer young; without one there is no wait."""

    async def run() -> None:
        store = MemoryStore(ttl_s=1000, most=10)
        await store.wait_until_read(60)
        await store.finish("u", "a", b"1")
        waiting = asyncio.create_task(store.wait_until_read(60))
        await asyncio.sleep(0)
        assert not waiting.done()
        await store.find("u", "a")
        await asyncio.wait_for(waiting, 30)
        await store.finish("u", "b", b"1")
        await asyncio.wait_for(store.wait_until_read(0.01), 30)

    asyncio.run(run())


def test_results_take_a_bounded_room() -> None:
    """Long ones, too, go oldest first; the newest stays although it alone is longer than the bound."""

    async def run() -> tuple[list[Found], list[int]]:
        forgotten: list[int] = []
        store = MemoryStore(ttl_s=10, most=100, most_bytes=5, forgotten=forgotten.append)
        for reward, body in (("a", b"11"), ("b", b"222"), ("c", b"3"), ("d", b"4444"), ("e", b"555555")):
            await store.finish("u", reward, body)
        return [await store.find("u", reward) for reward in "abcde"], forgotten

    unknown = State.UNKNOWN
    # 11+222 fit; 3 pushes out 11; 4444 pushes out 222; 555555 pushes out the rest.
    assert asyncio.run(run()) == ([unknown, unknown, unknown, unknown, b"555555"], [1, 1, 2])
