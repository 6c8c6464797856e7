# SPDX-License-Identifier: Apache-2.0
"""One request of a client, as a script sees it: read as much or as little as it likes, answer or not."""

from __future__ import annotations

import hashlib
import socket
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, final
from urllib.parse import parse_qs

__all__ = ["Exchange", "Received"]

_CHUNK: Final = 1 << 20
_KEPT: Final = 1 << 16


@final
@dataclass(kw_only=True)
class Received:
    """What arrived of one request."""

    method: str
    """Of the request line."""
    path: str
    """Of the request line."""
    headers: dict[str, str]
    """Names in lower case; of a name that came twice, both values joined by a comma."""
    head: bytes = b""
    """The first 64 KiB of the body."""
    size: int = 0
    """Bytes of the body that arrived."""
    sha256: str = ""
    """Of the body, once all of it arrived; empty before."""
    closed: bool = field(default=False)
    """Whether the connection is closed."""

    @property
    def line(self) -> bytes:
        """The body up to its first LF, the LF left out."""
        return self.head.split(b"\n", 1)[0]

    @property
    def form(self) -> dict[str, str]:
        """The fields of an urlencoded body."""
        fields = parse_qs(self.head.decode("utf-8"), keep_blank_values=True)
        return {name: values[-1] for name, values in fields.items()}


@final
class Exchange:
    """A connection with one request on it.

    Args:
        connection: where the rest of the request comes from and the answer goes to.
        received: what is known of it; grows as more is read.
        started: the bytes of the body that came with the headers.
        new_uuid: a uuid of its own for an enqueue.
        over: set when the service is closed; whatever waits, waits for it.
    """

    def __init__(
        self, connection: socket.socket, received: Received, started: bytes, new_uuid: str, over: threading.Event
    ) -> None:
        self.received = received
        self.new_uuid = new_uuid
        self.over = over
        self._connection = connection
        self._hash = hashlib.sha256()
        self._take(started)

    def read(self, at_least: int | None = None) -> None:
        """Read the body: all of it, or until `at_least` bytes of it are there."""
        expected = int(self.received.headers.get("content-length", "0"))
        wanted = expected if at_least is None else min(at_least, expected)
        while self.received.size < wanted:
            chunk = self._connection.recv(min(_CHUNK, wanted - self.received.size))
            if not chunk:
                return
            self._take(chunk)
        if self.received.size == expected:
            self.received.sha256 = self._hash.hexdigest()

    def asked_for(self) -> str:
        """The uuid of a pull."""
        self.read()
        return self.received.form.get("uuid", "")

    def write(self, content: bytes) -> None:
        """Send bytes as they are."""
        self._connection.sendall(content)

    def reset(self) -> None:
        """End the connection with a TCP reset instead of an orderly close."""
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._connection.close()

    def drain(self) -> None:
        """Say that no more will be sent, then read and forget until the client closes."""
        self._connection.shutdown(socket.SHUT_WR)
        while self._connection.recv(_CHUNK):
            pass

    def hold(self) -> None:
        """Keep the connection open until the client closes it or the service ends."""
        self._connection.settimeout(0.05)
        while not self.over.is_set():
            with suppress(TimeoutError):
                if not self._connection.recv(_CHUNK):
                    return

    def _take(self, chunk: bytes) -> None:
        self._hash.update(chunk)
        self.received.size += len(chunk)
        self.received.head += chunk[: max(0, _KEPT - len(self.received.head))]
