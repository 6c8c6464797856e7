# SPDX-License-Identifier: Apache-2.0
"""Run the service until it is told to stop, and leave nothing behind."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import final
from urllib.parse import unquote, urlsplit

import uvicorn

from posttrain.errors import RewardConfigError, RewardUnavailableError, text_of
from posttrain.rewards.catalog.load import load_catalog
from posttrain.runs.checks.credentials import Credentials
from posttrain.service.groups.scoring import GroupDesk
from posttrain.service.scorers.process import ScorerProcess
from posttrain.service.scorers.spec import served_scorers
from posttrain.service.settings import ServiceSettings
from posttrain.service.store.memory import MemoryStore
from posttrain.service.store.redis import RedisStore
from posttrain.service.store.results import ResultStore, StoreUnavailableError
from posttrain.service.web.app import application
from posttrain.service.web.auth import BearerToken, taken_from
from posttrain.service.web.logs import log_to_standard_error
from posttrain.service.web.metrics import ServiceMetrics
from posttrain.service.web.running import Running
from posttrain.service.work.worker import WorkerLostError

__all__ = ["run"]

_MOST_CONNECTIONS = 512
_LAST_ANSWERS_S = 2
_KEEP_ALIVE_S = 75
"""Longer than a client waits between two pulls."""
_BACKLOG = 128
_log = logging.getLogger("posttrain.service")


def run(settings: ServiceSettings, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT.

    Args:
        settings: how to serve.
        announce: told the URL once requests are taken.

    Raises:
        RewardConfigError: something of the set-up does not hold.
        RewardUnavailableError: the store does not answer, or a scorer hangs while it is loaded.
    """
    secrets = {name: os.environ.get(name, "").strip() for name in (settings.token_env, settings.redis_env) if name}
    token = None if settings.token_env is None else BearerToken(taken_from(os.environ, settings.token_env))
    redis_url = settings.redis_url if settings.redis_env is None else taken_from(os.environ, settings.redis_env)
    masked = _masking(secrets)
    log_to_standard_error(masked)
    metrics = ServiceMetrics()
    with redirect_stdout(sys.stderr):
        # Standard output is for the one line that says where we listen.
        catalog = load_catalog(settings.catalog)
    scorers = served_scorers(settings.scorers)
    with _listening(settings.host, settings.port) as listening:

        async def serve() -> None:
            server = _Server()
            running = Running(
                settings,
                scorers=scorers,
                worker=lambda spec: ScorerProcess(
                    spec, start_timeout_s=settings.start_timeout_s, memory_limit_mib=settings.memory_limit_mib
                ),
                store=_store(settings, redis_url, metrics),
                metrics=metrics,
                groups=GroupDesk(settings, catalog, metrics, masked),
                broken=server.fail,
                masked=masked,
            )
            server.config.app = application(settings, running, token)
            await server.run_with(running, listening, announce)

        asyncio.run(serve())


def _store(settings: ServiceSettings, url: str | None, metrics: ServiceMetrics) -> ResultStore:
    kept = {"ttl_s": settings.result_ttl_s, "most": settings.max_results, "forgotten": metrics.forgotten}
    return MemoryStore(**kept) if url is None else RedisStore(url, **kept)  # type: ignore[arg-type]  # as named above


def _masking(secrets: dict[str, str]) -> Callable[[str], str]:
    known = Credentials(os.environ, secrets)
    # By their names these may be no credentials; here they are, whatever they are called.
    own = [text for value in secrets.values() for text in (value, _password_in(value)) if text]

    def masked(text: str) -> str:
        for value in own:
            text = text.replace(value, "[secret]")
        return known.masked(text)

    return masked


def _password_in(url: str) -> str:
    try:
        return unquote(urlsplit(url).password or "")
    except ValueError:
        return ""


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    try:
        listening = _bound(host, port)
    except OSError as error:
        raise RewardConfigError(f"can't listen on {host}, port {port}: {error.strerror or error}") from error
    with listening:
        yield listening


def _bound(host: str, port: int) -> socket.socket:
    # With the protocol named: only so does asyncio turn Nagle's algorithm off, which costs 40 ms an answer.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening


async def _nothing(*_: object) -> None:
    """Stands in for the application until it is made."""


@final
class _Server(uvicorn.Server):
    """Drains before it stops taking requests, so that results can still be pulled, and ends by itself."""

    def __init__(self) -> None:
        super().__init__(
            uvicorn.Config(
                _nothing,
                log_config=None,
                access_log=False,
                lifespan="off",
                http="h11",
                ws="none",
                proxy_headers=False,
                limit_concurrency=_MOST_CONNECTIONS,
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=_LAST_ANSWERS_S,
            )
        )
        self._stop = asyncio.Event()
        self._failed = False

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to `run_with`."""
        yield

    def fail(self) -> None:
        """End at once: the service can't go on."""
        self._failed = True
        self._stop.set()

    async def run_with(self, running: Running, listening: socket.socket, announce: Callable[[str], None]) -> None:
        """Serve until a signal; a second one cuts the draining short."""
        loop = asyncio.get_running_loop()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, self._signalled)
        if not await self._started(running):
            return
        serving = asyncio.create_task(self.serve(sockets=[listening]))
        try:
            announce(_url(listening))
            stopping = asyncio.create_task(self._stop.wait())
            await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not (self._failed or serving.done()):
                await self._drained(running)
        finally:
            self.should_exit = True
            try:
                await running.stop()
            finally:
                await serving
        if self._failed:
            raise RewardUnavailableError("the service broke and had to stop: see the log above")

    async def _started(self, running: Running) -> bool:
        """Start what is behind; False: a signal came first, and everything is undone."""
        starting = asyncio.create_task(running.start())
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not starting.done():
            starting.cancel()
        try:
            await starting
        except asyncio.CancelledError:
            return False
        except StoreUnavailableError as error:
            raise RewardUnavailableError(f"the store does not answer: {error}") from error
        except WorkerLostError as error:
            raise RewardUnavailableError(f"a scorer can't be loaded: {text_of(error)}") from error
        return True

    async def _drained(self, running: Running) -> None:
        _log.info("draining")
        self._stop.clear()
        draining = asyncio.create_task(running.drain())
        again = asyncio.create_task(self._stop.wait())
        await asyncio.wait({draining, again}, return_when=asyncio.FIRST_COMPLETED)
        for task in (draining, again):
            task.cancel()

    def _signalled(self) -> None:
        self._stop.set()


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
