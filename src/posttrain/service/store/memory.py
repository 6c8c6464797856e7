# SPDX-License-Identifier: Apache-2.0
"""Results in this process: gone when it ends."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import final

from posttrain.service.store.results import Found, State

__all__ = ["MemoryStore"]


@final
class MemoryStore:
    """Keeps each finished result for `ttl_s`, and a bounded number of them; the oldest go first, pending ones never.

    Args:
        ttl_s: seconds from finish on.
        most: count of finished results.
        most_bytes: of their bodies together; what a client wants echoed is in them.
        forgotten: told how many were let go before their time, since there were too many.
        clock: seconds that only go forward.
    """

    def __init__(
        self,
        *,
        ttl_s: float,
        most: int,
        most_bytes: int = 256 << 20,
        forgotten: Callable[[int], None] = lambda _: None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._ttl_s = ttl_s
        self._most = most
        self._most_bytes = most_bytes
        self._forgotten = forgotten
        self._clock = clock
        self._pending: set[tuple[str, str]] = set()
        # In the order in which they were finished, and so in the order in which they expire.
        self._done: OrderedDict[tuple[str, str], tuple[float, bytes]] = OrderedDict()
        self._bytes = 0
        self._unread: dict[tuple[str, str], float] = {}
        self._read = asyncio.Event()

    async def open(self) -> None:
        """See `ResultStore.open`."""

    async def begin(self, uuid: str, rewards: Sequence[str]) -> None:
        """See `ResultStore.begin`."""
        self._pending.update((uuid, reward) for reward in rewards)

    async def finish(self, uuid: str, reward: str, body: bytes) -> None:
        """See `ResultStore.finish`."""
        key = (uuid, reward)
        self._pending.discard(key)
        self._expire()
        if key not in self._done:
            self._done[key] = (self._clock() + self._ttl_s, body)
            self._unread[key] = self._clock()
            self._bytes += len(body)
        forgotten = 0
        # The newest stays, however long it is.
        while len(self._done) > self._most or (self._bytes > self._most_bytes and len(self._done) > 1):
            self._let_go_of_oldest()
            forgotten += 1
        if forgotten:
            self._forgotten(forgotten)

    async def find(self, uuid: str, reward: str) -> Found:
        """See `ResultStore.find`."""
        self._expire()
        if (found := self._done.get((uuid, reward))) is not None:
            self._unread.pop((uuid, reward), None)
            self._read.set()
            return found[1]
        return State.PENDING if (uuid, reward) in self._pending else State.UNKNOWN

    async def wait_until_read(self, within_s: float) -> None:
        """See `ResultStore.wait_until_read`."""
        while young := [at for at in self._unread.values() if self._clock() - at < within_s]:
            self._read.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(young) + within_s - self._clock()):
                    await self._read.wait()

    async def check(self) -> None:
        """See `ResultStore.check`."""

    async def close(self) -> None:
        """See `ResultStore.close`."""

    def _expire(self) -> None:
        now = self._clock()
        while self._done and next(iter(self._done.values()))[0] <= now:
            self._let_go_of_oldest()

    def _let_go_of_oldest(self) -> None:
        key, (_, body) = self._done.popitem(last=False)
        self._unread.pop(key, None)
        self._bytes -= len(body)
