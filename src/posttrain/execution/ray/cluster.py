# SPDX-License-Identifier: Apache-2.0
"""Which Ray a pool runs on: one that is there already, or a local one that is started and stopped with it."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import tempfile
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final, final

from posttrain.errors import RewardConfigError, RewardUnavailableError, text_of

__all__ = ["Cluster", "import_ray"]

_ENVIRONMENT: Final = {
    # Nothing is sent anywhere, and a Ray of one machine listens on loopback only.
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
}
_KNOCK_S: Final = 10.0
"""Seconds for a cluster's address to accept a connection."""
_STORE_BYTES: Final = 256 * 2**20


def import_ray(address: str | None = "elsewhere") -> Any:
    """The module `ray`.

    Args:
        address: where it will be used; see `RayEvaluator`. What a local one listens on is settled by the first import.

    Raises:
        RewardConfigError: it is not installed.
    """
    local = address == "local" or (address is None and not os.environ.get("RAY_ADDRESS"))
    with _Environment() if local else nullcontext():
        try:
            import ray
        except ImportError as error:
            raise RewardConfigError('Ray is not installed: pip install "posttrain[ray]"') from error
    return ray


@final
class _Local:
    """The local Ray of this process: shared by every pool that asks for one, stopped with the last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: set[int] = set()
        self._joined = 0
        self._session: str | None = None
        self._folder: Path | None = None

    def join(self, namespace: str | None) -> int | None:
        """Use the Ray of this process, or start one; a token to leave with, None when it is not ours to stop."""
        with self._lock:
            ray = import_ray("local")
            if not ray.is_initialized():
                self._start(ray, namespace)
            elif _session(ray) != self._session:
                return None
            self._joined += 1
            self._users.add(self._joined)
            return self._joined

    def leave(self, token: int) -> None:
        """Stop it when nobody else uses it; one that came after it, ours or not, is left alone."""
        with self._lock:
            if token not in self._users:
                return
            self._users.discard(token)
            if not self._users:
                ray = import_ray()
                if ray.is_initialized() and _session(ray) == self._session:
                    ray.shutdown()
                self._forget()

    def _forget(self) -> None:
        self._users.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._session = self._folder = None

    def _start(self, ray: Any, namespace: str | None) -> None:
        self._forget()
        # A short path: Ray puts Unix sockets below it, whose names are limited to about a hundred characters.
        folder = Path(tempfile.mkdtemp(prefix="pt-ray-"))
        try:
            with _Environment():
                ray.init(
                    address="local",
                    namespace=namespace,
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    object_store_memory=_STORE_BYTES,
                    _temp_dir=str(folder),
                )
        except Exception as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise RewardUnavailableError(f"a local Ray could not be started: {text_of(error)}") from error
        self._folder, self._session = folder, _session(ray)


def _session(ray: Any) -> str:
    """What tells one connection of this process from another."""
    context = ray.get_runtime_context()
    return f"{context.gcs_address} {context.get_job_id()}"


_LOCAL: Final = _Local()


@final
class Cluster:
    """A connection, used by one pool.

    Args:
        address: see `RayEvaluator`.
        namespace: see `RayEvaluator`.

    Raises:
        RewardUnavailableError: the cluster can't be reached, or a local Ray not started.
        RewardConfigError: this process is connected to another cluster already.
    """

    def __init__(self, address: str | None, namespace: str | None) -> None:
        target = address or _elsewhere()
        self._token = _LOCAL.join(namespace) if target == "local" else None
        if target != "local":
            _connect(target, namespace)
        self._here = _session(import_ray())

    def is_up(self) -> bool:
        """Whether the connection that this pool began with is still there."""
        ray = import_ray()
        # Asked first: most calls of Ray start a Ray of their own when there is none.
        return bool(ray.is_initialized()) and _session(ray) == self._here

    def leave(self) -> None:
        """Let go of it: a local Ray of ours is stopped, anybody else's is left alone."""
        token, self._token = self._token, None
        if token is not None:
            _LOCAL.leave(token)

    def resources(self) -> str:
        """What the cluster has, and what of it is free, in one line for an error."""
        ray = import_ray()
        if not self.is_up():
            return "no connection"
        total, free = ray.cluster_resources(), ray.available_resources()
        shown = [
            f"{name} {free.get(name, 0):g} of {amount:g} free"
            for name, amount in sorted(total.items())
            if not name.startswith(("node:", "memory", "object_store_memory"))
        ]
        nodes = sum(bool(node.get("Alive")) for node in ray.nodes())
        return f"{nodes} node{'' if nodes == 1 else 's'}; {', '.join(shown) or 'no resources'}"


def _elsewhere() -> str:
    """What no address means: the Ray of this process, else the environment's, else a local one."""
    ray = import_ray()
    if ray.is_initialized():
        return "local"
    return os.environ.get("RAY_ADDRESS") or "local"


def _connect(address: str, namespace: str | None) -> None:
    ray = import_ray()
    if ray.is_initialized():
        current = str(ray.get_runtime_context().gcs_address)
        if address not in {"auto", current}:
            raise RewardConfigError(
                f"this process is connected to the Ray at {current}, not to {address}: call ray.shutdown() first, or "
                "give that address"
            )
        return
    _knock(address)
    try:
        ray.init(address=address, namespace=namespace, log_to_driver=False)
    except Exception as error:
        raise RewardUnavailableError(f"the Ray cluster at {address} can't be reached: {text_of(error)}") from error


def _knock(address: str) -> None:
    """Refuse an address at which nobody listens: Ray itself would try it for minutes."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal():
        return  # auto, or a form that Ray knows better
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_S).close()
    except (OSError, OverflowError) as error:
        raise RewardUnavailableError(f"the Ray cluster at {address} can't be reached: {text_of(error)}") from error


@final
class _Environment:
    """Our defaults for what the user's environment leaves open, for the time of a call."""

    def __enter__(self) -> None:
        self._added = [name for name in _ENVIRONMENT if name not in os.environ]
        for name in self._added:
            os.environ[name] = _ENVIRONMENT[name]

    def __exit__(self, *_: object) -> None:
        for name in self._added:
            os.environ.pop(name, None)
