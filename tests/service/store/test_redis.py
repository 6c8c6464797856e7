# SPDX-License-Identifier: Apache-2.0
"""Results in a real Redis: they outlive a server, and work that a server took with it is told."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable

import pytest

from posttrain.errors import RewardConfigError
from posttrain.service.store.redis import LOST, RedisStore
from posttrain.service.store.results import Found, State, StoreUnavailableError


def store_at(url: str, prefix: str) -> RedisStore:
    """A store with keys of its own."""
    return RedisStore(url, ttl_s=60, most=10, prefix=prefix)


def using(url: str, prefix: str, work: Callable[[RedisStore], Awaitable[None]]) -> None:
    """Open a store, work with it, close it."""

    async def run() -> None:
        store = store_at(url, prefix)
        await store.open()
        try:
            await work(store)
        finally:
            await store.close()

    asyncio.run(run())


def test_a_finished_result_outlives_its_server(redis_url: str) -> None:
    """Another one finds it, to the byte."""

    async def first(store: RedisStore) -> None:
        await store.begin("u", ["a", "b"])
        assert await store.find("u", "a") is State.PENDING
        await store.finish("u", "a", b'{"x":"\xc3\xa9"}')
        assert await store.find("u", "a") == b'{"x":"\xc3\xa9"}'

    async def second(store: RedisStore) -> None:
        assert await store.find("u", "a") == b'{"x":"\xc3\xa9"}'
        assert await store.find("u", "c") is State.UNKNOWN

    using(redis_url, "outlives", first)
    using(redis_url, "outlives", second)


def test_work_of_a_server_that_is_gone_is_an_error(redis_url: str) -> None:
    """Not pending for ever; the error is the result from then on, whatever comes later."""

    async def first(store: RedisStore) -> None:
        await store.begin("u", ["a"])

    async def second(store: RedisStore) -> None:
        found = await store.find("u", "a")
        assert isinstance(found, bytes)
        assert json.loads(found)["error"] == LOST
        assert json.loads(found)["scores"] is None
        await store.finish("u", "a", b"late")
        assert await store.find("u", "a") == found

    using(redis_url, "gone", first)
    using(redis_url, "gone", second)


def test_work_of_another_server_that_lives_is_pending(redis_url: str) -> None:
    """Several servers may share one Redis, and any of them answers for all."""

    async def run() -> list[Found]:
        one, other = store_at(redis_url, "shared"), store_at(redis_url, "shared")
        await one.open()
        await other.open()
        await one.begin("u", ["a"])
        seen = [await other.find("u", "a")]
        await one.finish("u", "a", b"1")
        seen.append(await other.find("u", "a"))
        await one.close()
        await other.close()
        return seen

    assert asyncio.run(run()) == [State.PENDING, b"1"]


def test_results_expire(redis_url: str) -> None:
    """Redis itself lets them go: each key has a time to live of its own."""

    async def work(store: RedisStore) -> None:
        from redis.asyncio import Redis

        await store.begin("u", ["a", "b"])
        await store.finish("u", "a", b"1")
        async with Redis.from_url(redis_url) as client:
            lives = [await client.ttl(key) async for key in client.scan_iter("expiring:*")]
        assert len(lives) == 3
        assert all(0 < seconds <= 70 for seconds in lives)

    using(redis_url, "expiring", work)


def test_no_two_results_share_a_key(redis_url: str) -> None:
    """A uuid is any text of a client's, one that looks like a part of a key too."""

    async def work(store: RedisStore) -> None:
        await store.finish("u:a", "b", b"1")
        assert await store.find("u", "a:b") is State.UNKNOWN

    using(redis_url, "keys", work)


def test_a_result_is_held_while_redis_does_not_answer(redis_url: str) -> None:
    """It can be pulled meanwhile, and is saved later; what is not held fails, and says nothing of the password."""

    async def run() -> None:
        store = store_at(redis_url, "held")
        await store.open()
        await store.begin("u", ["a", "b"])
        working, store._redis = store._redis, store_at(_nowhere(), "held")._redis
        await store.finish("u", "a", b"1")
        assert await store.find("u", "a") == b"1"
        with pytest.raises(StoreUnavailableError, match=r"^Redis: ConnectionError$"):
            await store.find("u", "b")
        with pytest.raises(StoreUnavailableError, match=r"^Redis: ConnectionError$"):
            await store.begin("v", ["a"])
        with pytest.raises(StoreUnavailableError, match=r"^Redis: ConnectionError$"):
            await store.check()
        nowhere, store._redis = store._redis, working
        await nowhere.aclose()
        await store.close()
        other = store_at(redis_url, "held")
        assert await other.find("u", "a") == b"1"
        await other._redis.aclose()

    asyncio.run(run())


def _nowhere() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    return f"redis://:pass-of-redis-123@127.0.0.1:{port}"


def test_a_redis_that_is_not_there_is_told_at_once() -> None:
    """A server does not start on a store that does not answer."""
    with pytest.raises(StoreUnavailableError, match=r"^Redis: ConnectionError$"):
        using(_nowhere(), "none", lambda _: asyncio.sleep(0))


def test_a_wrong_password_is_told_at_once(redis_url: str) -> None:
    """Without the password."""
    with pytest.raises(StoreUnavailableError, match=r"^Redis: AuthenticationError$"):
        using(redis_url.replace("pass-of", "not-of"), "none", lambda _: asyncio.sleep(0))


def test_a_url_of_another_kind_is_refused() -> None:
    """And not quoted: it may hold a password."""
    with pytest.raises(
        RewardConfigError, match=r"^the Redis URL is not valid: expected redis://, rediss:// or unix://$"
    ):
        RedisStore("http://:secret@host", ttl_s=1, most=1)
