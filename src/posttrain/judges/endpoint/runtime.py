# SPDX-License-Identifier: Apache-2.0
"""The one thread, event loop and HTTP session of a process, shared by all of its endpoints.

It begins with the first endpoint that is opened and ends with the last that is closed. A fork leaves it with the
parent: the child begins afresh.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Hashable
from typing import TYPE_CHECKING, Final, final

from posttrain.errors import RewardConfigError
from posttrain.judges.endpoint.limits import Limiter, Limits

if TYPE_CHECKING:
    import aiohttp

__all__ = ["Runtime", "join_runtime", "leave_runtime", "require_aiohttp"]

_KEEP_IDLE_S: Final = 15.0
"""Seconds that an idle connection is kept; servers close theirs soon after."""
_DNS_S: Final = 60


def require_aiohttp() -> None:
    """Refuse by one line where the HTTP client is not installed.

    Raises:
        RewardConfigError: it is not.
    """
    try:
        import aiohttp  # noqa: F401  # only whether it is there
    except ImportError as error:
        raise RewardConfigError('judges need aiohttp: pip install "posttrain[judge]"') from error


@final
class Runtime:
    """A thread that runs a loop with a session in it, until `stop`."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="posttrain-judges", daemon=True)
        self._http: aiohttp.ClientSession | None = None
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._begin(), self.loop).result()
        except BaseException:
            self.stop()
            raise

    @property
    def http(self) -> aiohttp.ClientSession:
        """The session, to be used in the loop's thread."""
        if self._http is None:
            raise RuntimeError("the session has not begun")
        return self._http

    def stop(self) -> None:
        """End everything that runs in it, close its connections and wait for its thread."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    def _run(self) -> None:
        loop = self.loop
        try:
            loop.run_forever()
            loop.run_until_complete(self._end())
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            loop.close()

    async def _begin(self) -> None:
        import aiohttp

        connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=_DNS_S, keepalive_timeout=_KEEP_IDLE_S)
        # No cookies, no netrc, no proxies of the environment: what a request carries is decided by its endpoint alone.
        self._http = aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False, timeout=aiohttp.ClientTimeout()
        )

    async def _end(self) -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._http is not None:
            await self._http.close()
        # Sockets are let go of in the next turns of the loop.
        for _ in range(3):
            await asyncio.sleep(0)


@final
class _Process:
    """What this process shares."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.runtime: Runtime | None = None
        self.users: set[object] = set()
        self.limiters: dict[Hashable, Limiter] = {}


_process = _Process()
_abandoned: list[_Process] = []


def _begin_afresh() -> None:
    """In the child of a fork: the parent's loop and sockets are kept from their destructors, and never used."""
    global _process  # noqa: PLW0603  # the one state of the process
    _abandoned.append(_process)
    _process = _Process()


def _end_at_exit() -> None:
    process = _process
    with process.lock:
        runtime, process.runtime = process.runtime, None
        process.users.clear()
    if runtime is not None:
        runtime.stop()


os.register_at_fork(after_in_child=_begin_afresh)
# What was never closed must not end in the middle of the interpreter's own end.
atexit.register(_end_at_exit)


def join_runtime(who: object, key: Hashable, limits: Limits) -> tuple[Runtime, Limiter]:
    """Use the process's runtime and the limiter of `key`, until `leave_runtime`.

    Args:
        who: the user.
        key: what shares a limiter: base URL, model and credential.
        limits: what the user declares; of several the smallest holds.
    """
    with _process.lock:
        if _process.runtime is None:
            _process.runtime = Runtime()
        _process.users.add(who)
        limiter = _process.limiters.setdefault(key, Limiter())
        limiter.join(who, limits)
        return _process.runtime, limiter


def leave_runtime(who: object) -> None:
    """Use it no longer; the last user ends it. Calls of the last minute stay remembered."""
    with _process.lock:
        if who not in _process.users:
            return
        _process.users.discard(who)
        for key, limiter in list(_process.limiters.items()):
            limiter.leave(who)
            if limiter.is_forgettable:
                del _process.limiters[key]
            elif _process.runtime is not None:
                _process.runtime.loop.call_soon_threadsafe(limiter.admit)
        if not _process.users and _process.runtime is not None:
            runtime, _process.runtime = _process.runtime, None
            runtime.stop()
