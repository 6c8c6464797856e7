# SPDX-License-Identifier: Apache-2.0
"""A judge's endpoint that says what a test tells it to."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Self, final

from posttrain.testing.judge_server.exchange import JudgeReply, JudgeRequest, JudgeScript
from posttrain.testing.judge_server.protocol import Connection

__all__ = ["FakeJudgeServer"]


@final
class FakeJudgeServer:
    """A real HTTP server on this machine that speaks the chat completions interface, with scripted replies.

    It runs in a thread of its own between ``with`` and the end of the block. Requests first use up what `script` has
    queued, in the order of their arrival, then each is answered by `otherwise`. A script is a text (the content of a
    sound reply), a `JudgeReply` (any status, header, delay, broken connection, malformed or endless body), or a
    function of the `JudgeRequest` that gives one of the two, called in the server's thread. What such a function raises
    cuts the connection, and is raised again when the block ends.

    Args:
        otherwise: the script of every request that nothing is queued for.
        port: where it listens; 0: a free one.

    Example:
        ::

            with FakeJudgeServer('{"helpful": 1.0}') as server:
                server.script(JudgeReply.error(429, retry_after="0"), JudgeReply(drop="mid body"))
                config = JudgeConfig(model="fake", revision="1", base_url=server.base_url)
                ...
                assert len(server.requests) == 3
                assert server.requests[0].body["temperature"] == 0.0
    """

    def __init__(self, otherwise: JudgeScript = "{}", *, port: int = 0) -> None:
        self._otherwise = otherwise
        self._port = port
        self._changed = threading.Condition()
        self._queue: deque[JudgeScript] = deque()
        self._requests: list[JudgeRequest] = []
        self._connections: set[Connection] = set()
        self._accepted = 0
        self._in_flight = 0
        self._peak = 0
        self._held: list[tuple[Connection, JudgeReply]] | None = None
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._base_url = ""

    def __repr__(self) -> str:
        return f"FakeJudgeServer({self._base_url or 'not started'})"

    def __enter__(self) -> Self:
        """Start to listen."""
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(self._failed)
        try:
            server = loop.run_until_complete(self._listen(loop))
        except BaseException:
            loop.close()
            raise
        self._base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        self._loop = loop
        self._thread = threading.Thread(target=self._run, args=(loop, server), name="fake-judge", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Stop, cut every connection, and raise what a script's function has raised, where no other error is raised."""
        if self._loop is not None and self._thread is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        if self._failure is not None and error is None:
            raise self._failure

    async def _listen(self, loop: asyncio.AbstractEventLoop) -> asyncio.Server:
        return await loop.create_server(lambda: Connection(self, loop), "127.0.0.1", self._port, backlog=1024)

    def _run(self, loop: asyncio.AbstractEventLoop, server: asyncio.Server) -> None:
        try:
            loop.run_forever()
            server.close()
            for connection in list(self._connections):
                connection.abort()
            loop.run_until_complete(server.wait_closed())
            # Cut connections are let go of in the next turns of the loop.
            for _ in range(3):
                loop.run_until_complete(asyncio.sleep(0))
        finally:
            loop.close()

    @property
    def base_url(self) -> str:
        """What `JudgeConfig.base_url` takes; of a server that has started."""
        return self._base_url

    @property
    def requests(self) -> list[JudgeRequest]:
        """Every request until now, in the order of arrival."""
        with self._changed:
            return list(self._requests)

    @property
    def peak_in_flight(self) -> int:
        """The most requests that were being answered at one time."""
        with self._changed:
            return self._peak

    @property
    def connections(self) -> int:
        """How many connections were made until now."""
        with self._changed:
            return self._accepted

    def script(self, *replies: JudgeScript) -> None:
        """Queue replies: one for each of the next requests."""
        with self._changed:
            self._queue.extend(replies)

    def hold(self) -> None:
        """Keep every reply back until `release`."""
        with self._changed:
            self._held = [] if self._held is None else self._held

    def release(self) -> None:
        """Send what is held back, and hold no more."""
        with self._changed:
            held, self._held = self._held or [], None
        if self._loop is not None:
            for connection, reply in held:
                self._loop.call_soon_threadsafe(connection.send, reply)

    def wait_for(self, count: int, *, timeout_s: float = 30.0) -> list[JudgeRequest]:
        """Wait until so many requests have come, in all.

        Raises:
            TimeoutError: they have not.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._requests) >= count, timeout_s):
                raise TimeoutError(f"{len(self._requests)} of {count} requests came within {timeout_s:g} s")
            return list(self._requests)

    def arrived(self, connection: Connection) -> int:
        """For the connection: it was made."""
        with self._changed:
            self._connections.add(connection)
            self._accepted += 1
            return self._accepted - 1

    def left(self, connection: Connection) -> None:
        """For the connection: it is gone."""
        with self._changed:
            self._connections.discard(connection)

    def answered(self) -> None:
        """For the connection: a reply is sent."""
        with self._changed:
            self._in_flight -= 1

    def asked(self, connection: Connection, method: str, path: str, headers: Mapping[str, str], raw: bytes) -> None:
        """For the connection: answer a request."""
        with self._changed:
            request = JudgeRequest(
                number=len(self._requests),
                at=time.monotonic(),
                connection=connection.number,
                method=method,
                path=path,
                headers=headers,
                raw=raw,
            )
            self._requests.append(request)
            self._in_flight += 1
            self._peak = max(self._peak, self._in_flight)
            script = self._queue.popleft() if self._queue else self._otherwise
            self._changed.notify_all()
        reply = self._reply(script, request)
        if reply.delay_s > 0 and self._loop is not None:
            self._loop.call_later(reply.delay_s, self._send, connection, reply)
        else:
            self._send(connection, reply)

    def _reply(self, script: JudgeScript, request: JudgeRequest) -> JudgeReply:
        if request.method != "POST" or request.path != "/v1/chat/completions":
            return JudgeReply.error(404, f"nothing at {request.method} {request.path}")
        said = script(request) if callable(script) else script
        return said if isinstance(said, JudgeReply) else JudgeReply(content=said)

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Keep the first failure for the end of the block; asyncio has cut the connection that met it."""
        del loop
        self._failure = self._failure or context.get("exception") or RuntimeError(context["message"])

    def _send(self, connection: Connection, reply: JudgeReply) -> None:
        with self._changed:
            if self._held is not None:
                self._held.append((connection, reply))
                return
        connection.send(reply)
