# SPDX-License-Identifier: Apache-2.0
"""Results in Redis: finished ones outlive this process, and several servers may share one Redis.

Two keys a result: `…:work` names the server that has it in hand, `…:done` holds the body. A server that lives renews
its own key; work whose server is gone is answered as an error, once and for all, instead of being pending forever.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, final
from uuid import uuid4

from posttrain.errors import RewardConfigError
from posttrain.service.protocol.answers import error_result
from posttrain.service.store.results import Found, State, StoreUnavailableError

if TYPE_CHECKING:
    from redis.asyncio import Redis

__all__ = ["RedisStore"]

LOST: Final = "the service ended before this was scored: enqueue it again"
"""The error of work that was in flight when its server ended."""

_CALL_S: Final = 5.0
_BEAT_S: Final = 1.5
_ALIVE_S: Final = 6
"""Seconds after which a server that no longer beats is gone."""

_log = logging.getLogger("posttrain.service.store")


@final
class RedisStore:
    """Keeps each finished result for `ttl_s`; Redis bounds their number by its own `maxmemory`.

    Args:
        url: ``redis://…``, ``rediss://…`` or ``unix://…``; it may hold a password and is never shown.
        ttl_s: seconds that a finished result is kept.
        most: count of finished results that are held here while Redis does not answer.
        forgotten: told how many were let go because there were more.
        prefix: what every key begins with.

    Raises:
        RewardConfigError: the client library is missing, or the URL is none.
    """

    def __init__(
        self,
        url: str,
        *,
        ttl_s: float,
        most: int,
        forgotten: Callable[[int], None] = lambda _: None,
        prefix: str = "posttrain:service",
    ) -> None:
        try:
            from redis.asyncio import Redis as Client
        except ImportError as error:
            raise RewardConfigError('results in Redis need the Redis client: pip install "posttrain[serve]"') from error
        try:
            self._redis: Redis = Client.from_url(
                url, socket_timeout=_CALL_S, socket_connect_timeout=_CALL_S, decode_responses=False
            )
        except ValueError:
            # The library's own text may quote the URL, and with it a password.
            raise RewardConfigError("the Redis URL is not valid: expected redis://, rediss:// or unix://") from None
        self._ttl_s = max(1, round(ttl_s))
        self._most = most
        self._forgotten = forgotten
        self._prefix = prefix
        self._server = uuid4().hex
        self._in_hand: set[tuple[str, str]] = set()
        self._unsaved: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._beating: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """See `ResultStore.open`."""
        try:
            await self._beat()
        except StoreUnavailableError:
            await self._redis.aclose()
            raise
        self._beating = asyncio.create_task(self._beat_on())

    async def begin(self, uuid: str, rewards: Sequence[str]) -> None:
        """See `ResultStore.begin`."""
        async with self._asked():
            pipe = self._redis.pipeline(transaction=True)
            for reward in rewards:
                pipe.set(self._key(uuid, reward, "work"), self._server, ex=self._ttl_s + _ALIVE_S)
            await pipe.execute()
        self._in_hand.update((uuid, reward) for reward in rewards)

    async def finish(self, uuid: str, reward: str, body: bytes) -> None:
        """See `ResultStore.finish`."""
        key = (uuid, reward)
        self._in_hand.discard(key)
        self._unsaved[key] = body
        while len(self._unsaved) > self._most:
            self._unsaved.popitem(last=False)
            self._forgotten(1)
        try:
            await self._save(key)
        except StoreUnavailableError as error:
            _log.warning("a result is held here until the store answers: %s", error)

    async def find(self, uuid: str, reward: str) -> Found:
        """See `ResultStore.find`."""
        held = self._unsaved.get((uuid, reward))
        try:
            found = await self._look_up(uuid, reward)
        except StoreUnavailableError:
            if held is None:
                raise
            return held
        # What Redis holds was told first. Until a result is saved there, the one that is held here counts.
        return held if isinstance(found, State) and held is not None else found

    async def _look_up(self, uuid: str, reward: str) -> Found:
        async with self._asked():
            done, server = _bytes(
                await self._redis.mget(self._key(uuid, reward, "done"), self._key(uuid, reward, "work"))
            )
            if done is not None:
                return done
            if server is None:
                return State.UNKNOWN
            if server == self._server.encode() or await self._redis.exists(self._server_key(server.decode())):
                return State.PENDING
            await self._put(uuid, reward, error_result(reward, LOST, {}))
            (done,) = _bytes([await self._redis.get(self._key(uuid, reward, "done"))])
            return State.UNKNOWN if done is None else done

    async def wait_until_read(self, within_s: float) -> None:
        """See `ResultStore.wait_until_read`: they outlive this process."""

    async def check(self) -> None:
        """See `ResultStore.check`."""
        async with self._asked():
            await self._redis.get(self._server_key(self._server))

    async def close(self) -> None:
        """Save what is still held, say that this server is gone, and disconnect."""
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)
        try:
            await self._save_all()
            async with self._asked():
                await self._redis.delete(self._server_key(self._server))
        except StoreUnavailableError as error:
            _log.error("%d results are lost with this server: %s", len(self._unsaved), error)
        await self._redis.aclose()

    async def _save(self, key: tuple[str, str]) -> None:
        if (body := self._unsaved.get(key)) is None:
            return
        async with self._asked():
            await self._put(*key, body)
        self._unsaved.pop(key, None)

    async def _save_all(self) -> None:
        for key in list(self._unsaved):
            await self._save(key)

    async def _put(self, uuid: str, reward: str, body: bytes) -> None:
        """The first result counts: one that was told to a client never changes."""
        pipe = self._redis.pipeline(transaction=True)
        pipe.set(self._key(uuid, reward, "done"), body, ex=self._ttl_s, nx=True)
        pipe.delete(self._key(uuid, reward, "work"))
        await pipe.execute()

    async def _beat_on(self) -> None:
        while True:
            await asyncio.sleep(_BEAT_S)
            try:
                await self._beat()
            except StoreUnavailableError as error:
                _log.warning("the store does not answer: %s", error)

    async def _beat(self) -> None:
        async with self._asked():
            pipe = self._redis.pipeline(transaction=False)
            pipe.set(self._server_key(self._server), b"1", ex=_ALIVE_S)
            for uuid, reward in list(self._in_hand):
                # Work that waits for longer than a result is kept stays known.
                pipe.expire(self._key(uuid, reward, "work"), self._ttl_s + _ALIVE_S)
            await pipe.execute()
        await self._save_all()

    @asynccontextmanager
    async def _asked(self) -> AsyncIterator[None]:
        """Turn every failure of Redis into one error that does not quote the URL."""
        from redis.exceptions import RedisError

        try:
            async with asyncio.timeout(_CALL_S):
                yield
        except (RedisError, OSError, TimeoutError) as error:
            raise StoreUnavailableError(f"Redis: {type(error).__name__}") from error

    def _key(self, uuid: str, reward: str, what: str) -> str:
        # The uuid of a pull is the client's own text: its length goes ahead, so that no two pairs make one key.
        return f"{self._prefix}:{len(uuid)}:{uuid}:{reward}:{what}"

    def _server_key(self, server: str) -> str:
        return f"{self._prefix}:server:{server}"


def _bytes(values: Sequence[bytes | str | None]) -> list[bytes | None]:
    """The client gives bytes, which its types can't tell."""
    return [value.encode() if isinstance(value, str) else value for value in values]
