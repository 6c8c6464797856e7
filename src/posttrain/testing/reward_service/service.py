# SPDX-License-Identifier: Apache-2.0
"""`FakeRewardService`: the server around the scripts."""

from __future__ import annotations

import hmac
import itertools
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Self, final

from posttrain.testing.reward_service.exchange import Exchange, Received
from posttrain.testing.reward_service.steps import Step, answer, enqueued, scored

__all__ = ["FakeRewardService"]

_ENQUEUE: Final = "/api/reward/enqueue"
_PULL: Final = "/api/reward/pull"
_LONGEST_HEAD: Final = 65_536


@final
class FakeRewardService:
    """Speaks the reward service's protocol on a loopback port, follows its scripts and remembers every request.

    Each enqueue takes the next step of `enqueue`, each pull the next of `pull`; the last one is repeated for ever. A
    request without the right token is answered 401 and takes no step. Every connection serves one request.

    Args:
        enqueue: steps of the enqueues; None: all are taken, with the uuids ``fake-1``, ``fake-2`` and so on.
        pull: steps of the pulls; None: all are answered with an `overall_reward` of 0.5.
        token: bearer token that each request must carry; None: any will do.
        tls: speak https with this context.

    Example:
        ::

            with FakeRewardService(pull=[pending(), answer(500), scored({"overall_reward": [0.5]})]) as service:
                config = VideoRewardConfig(enqueue_url=service.enqueue_url, pull_url=service.pull_url, ...)
                ...
                assert len(service.pulls) == 3
    """

    def __init__(
        self,
        enqueue: Sequence[Step] | None = None,
        pull: Sequence[Step] | None = None,
        *,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._steps = {
            _ENQUEUE: _endless(enqueue or [enqueued()]),
            _PULL: _endless(pull or [scored({"overall_reward": [0.5]})]),
        }
        self._token = token
        self._tls = tls
        self._names = (f"fake-{number}" for number in itertools.count(1))
        self._over = threading.Event()
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self.requests: list[Received] = []
        """Every request whose headers arrived, in that order."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._start(self._serve)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"FakeRewardService({self.url!r}, {len(self.requests)} requests)"

    @property
    def url(self) -> str:
        """Where it listens, without a path."""
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def enqueue_url(self) -> str:
        """The enqueue endpoint."""
        return self.url + _ENQUEUE

    @property
    def pull_url(self) -> str:
        """The pull endpoint."""
        return self.url + _PULL

    @property
    def enqueues(self) -> list[Received]:
        """The requests to the enqueue endpoint."""
        return [each for each in self.requests if each.path == _ENQUEUE]

    @property
    def pulls(self) -> list[Received]:
        """The requests to the pull endpoint."""
        return [each for each in self.requests if each.path == _PULL]

    def wait_until(self, met: Callable[[FakeRewardService], bool], timeout_s: float = 30.0) -> None:
        """Return as soon as `met` holds; looked at when a request arrives or ends.

        Raises:
            TimeoutError: it did not come to hold in time.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: met(self), timeout_s):
                raise TimeoutError(f"{self!r}: what was waited for did not happen within {timeout_s:g} s")

    def close(self) -> None:
        """End every exchange and every thread."""
        self._over.set()
        with suppress(OSError):
            # Wakes the thread that accepts; closing alone would not.
            self._listener.shutdown(socket.SHUT_RDWR)
        # Threads may be added until the first of them, the one that accepts, has ended.
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self) -> None:
        while not self._over.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._start(self._handle, connection)

    def _handle(self, connection: socket.socket) -> None:
        received: Received | None = None
        try:
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
            head, started = _read_head(connection)
            received = _parsed(head)
            with self._changed:
                self.requests.append(received)
                self._changed.notify_all()
            self._follow(connection, received, started)
        except OSError:
            # The client went away, or does not trust our certificate: its business.
            return
        finally:
            connection.close()
            with self._changed:
                if received is not None:
                    received.closed = True
                self._changed.notify_all()

    def _follow(self, connection: socket.socket, received: Received, started: bytes) -> None:
        with self._changed:
            step = self._step(received)
            uuid = next(self._names) if received.path == _ENQUEUE else ""
        step(Exchange(connection, received, started, uuid, self._over))

    def _step(self, received: Received) -> Step:
        expected = f"Bearer {self._token}"
        if self._token is not None and not hmac.compare_digest(
            received.headers.get("authorization", "").encode(), expected.encode()
        ):
            return answer(401, {"detail": "Unauthorized"})
        if received.path not in self._steps:
            return answer(404, {"detail": "Not Found"})
        if received.method != "POST":
            return answer(405, {"detail": "Method Not Allowed"})
        return self._steps[received.path]()


def _endless(steps: Sequence[Step]) -> Callable[[], Step]:
    """Each call gives the next step; the last one again and again."""
    following = itertools.chain(steps, itertools.repeat(steps[-1]))
    return lambda: next(following)


def _read_head(connection: socket.socket) -> tuple[bytes, bytes]:
    """The request's head without its blank line, and what came of the body with it."""
    collected = b""
    while b"\r\n\r\n" not in collected:
        chunk = connection.recv(_LONGEST_HEAD)
        if not chunk or len(collected) > _LONGEST_HEAD:
            raise ConnectionError("the connection ended before the request's headers did")
        collected += chunk
    head, _, started = collected.partition(b"\r\n\r\n")
    return head, started


def _parsed(head: bytes) -> Received:
    first, *rest = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers: dict[str, str] = {}
    for line in rest:
        name, _, value = line.partition(":")
        key = name.strip().lower()
        headers[key] = f"{headers[key]},{value.strip()}" if key in headers else value.strip()
    return Received(method=method, path=path, headers=headers)
