# SPDX-License-Identifier: Apache-2.0
"""One connection of the fake judge: bytes to requests, replies to bytes, with every way of going wrong."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, final

from posttrain.testing.judge_server.exchange import JudgeReply

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol

    class Desk(Protocol):
        """Where requests are answered."""

        def arrived(self, connection: Connection) -> int:
            """A connection was made; its number."""

        def left(self, connection: Connection) -> None:
            """A connection is gone."""

        def asked(self, connection: Connection, method: str, path: str, headers: Mapping[str, str], raw: bytes) -> None:
            """A request came; `Connection.send` answers it."""

        def answered(self) -> None:
            """A reply has been sent as far as it goes."""


__all__ = ["Connection"]

_END: Final = b"\r\n\r\n"


@final
class Connection(asyncio.Protocol):
    """Reads one request after the other, and hands each to the desk."""

    def __init__(self, desk: Desk, loop: asyncio.AbstractEventLoop) -> None:
        self._desk = desk
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._is_busy = False
        self.number = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to write."""
        if isinstance(transport, asyncio.Transport):
            self._transport = transport
        self.number = self._desk.arrived(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it; a reply that is under way counts as sent."""
        del exc
        self._transport = None
        self._desk.left(self)
        self._finish()

    def abort(self) -> None:
        """Cut the connection."""
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take in bytes; hand on a request that is whole."""
        self._buffer += data
        self._look()

    def _look(self) -> None:
        head, end, rest = self._buffer.partition(_END)
        if self._is_busy or not end:
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path = first.split(" ")[:2]
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        size = int(headers.get("content-length", "0"))
        if len(rest) < size:
            return
        self._is_busy = True
        self._buffer = rest[size:]
        self._desk.asked(self, method, path, headers, bytes(rest[:size]))

    def send(self, reply: JudgeReply) -> None:
        """Send a reply, as far as it is to go."""
        if self._transport is None:
            return
        head, body = reply.encoded()
        if reply.drop == "before headers":
            self._transport.abort()
        elif reply.drop == "after headers":
            self._cut_after(head)
        elif reply.drop == "mid body":
            self._cut_after(head + body[: len(body) // 2])
        elif reply.trickle_s > 0:
            self._transport.write(head)
            self._trickle(memoryview(body), reply.trickle_s)
        else:
            self._transport.write(head + body)
            self._finish()

    def _cut_after(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)
            self._transport.close()

    def _trickle(self, body: memoryview, pause_s: float) -> None:
        if self._transport is None:
            return
        self._transport.write(body[:1])
        if len(body) > 1:
            self._loop.call_later(pause_s, self._trickle, body[1:], pause_s)
        else:
            self._finish()

    def _finish(self) -> None:
        if self._is_busy:
            self._is_busy = False
            self._desk.answered()
            if self._transport is not None:
                self._look()
