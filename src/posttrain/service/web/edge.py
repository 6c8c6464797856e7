# SPDX-License-Identifier: Apache-2.0
"""Around every request: the token, the access log, and answers that reach a client that is still sending."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from time import perf_counter
from typing import Any, Final, TypeAlias, final

from posttrain.service.protocol.answers import compact
from posttrain.service.web.auth import BearerToken
from posttrain.service.web.metrics import ServiceMetrics

__all__ = ["OPEN_PATHS", "Edge"]

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

OPEN_PATHS: Final = frozenset({"/healthz", "/openapi.json"})
"""Paths that need no token: they tell nothing of what is served to whom."""

_LINGER_S: Final = 2.0
_log = logging.getLogger("posttrain.service.access")


@final
class Edge:
    """The outermost layer.

    Args:
        app: what is inside.
        token: asked for on every path that is not open; None: no token.
        metrics: told of each answer.
        paths: the routes, which alone are named in logs and metrics; everything else is ``other``.
    """

    def __init__(self, app: App, *, token: BearerToken | None, metrics: ServiceMetrics, paths: frozenset[str]) -> None:
        self._app = app
        self._token = token
        self._metrics = metrics
        self._paths = paths

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send)
        started = perf_counter()
        try:
            if self._may(scope["path"], exchange.header(b"authorization")):
                await self._app(scope, exchange.receive, exchange.send)
            else:
                await exchange.refuse_token()
        finally:
            path = scope["path"] if scope["path"] in self._paths else "other"
            self._metrics.answered(path, exchange.status, exchange.received)
            _log.info(
                "request",
                extra={
                    "fields": {
                        "method": scope["method"] if scope["method"] in _METHODS else "other",
                        "path": path,
                        "status": exchange.status,
                        "received": exchange.received,
                        "seconds": round(perf_counter() - started, 6),
                        "client": (scope.get("client") or ("",))[0],
                    }
                },
            )

    def _may(self, path: str, authorization: str | None) -> bool:
        return self._token is None or path in OPEN_PATHS or self._token.matches(authorization)


_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


@final
class _Exchange:
    """One request and its answer, watched."""

    def __init__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        self.status = 0
        self.received = 0
        self._headers: list[tuple[bytes, bytes]] = scope["headers"]
        self._receive = receive
        self._send = send
        has_body = self.header(b"transfer-encoding") is not None or self.header(b"content-length") not in {None, "0"}
        self._body_open = has_body
        # A client that waits for our leave to send, and was not given it, sends nothing.
        self._sending = has_body and (self.header(b"expect") or "").lower() != "100-continue"

    def header(self, name: bytes) -> str | None:
        """The value of a header of the request."""
        return next((value.decode("latin-1") for key, value in self._headers if key == name), None)

    async def receive(self) -> Message:
        """The next piece of the body."""
        self._sending = self._body_open
        message = await self._receive()
        self.received += len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body", False):
            self._body_open = self._sending = False
        return message

    async def send(self, message: Message) -> None:
        """A piece of the answer; the last one waits for the client to end, or to hang up, for a while.

        Closing at once would make the system throw away what was sent and tell a client that still sends of a broken
        connection instead of our answer.
        """
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if self._body_open:
                # The rest of the body can't be told from a next request.
                message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
        if message["type"] == "http.response.body" and not message.get("more_body", False) and self._sending:
            await self._send({**message, "more_body": True})
            await self._linger()
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self._send(message)

    async def refuse_token(self) -> None:
        """Answer that the token is missing or another one."""
        body = compact({"detail": "a bearer token is needed: send Authorization: Bearer <token>"})
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"www-authenticate", b"Bearer"),
        ]
        await self.send({"type": "http.response.start", "status": 401, "headers": headers})
        await self.send({"type": "http.response.body", "body": body, "more_body": False})

    async def _linger(self) -> None:
        try:
            async with asyncio.timeout(_LINGER_S):
                while self._sending:
                    await self.receive()
        except TimeoutError:
            # It has had time enough to read our answer.
            self._sending = False
