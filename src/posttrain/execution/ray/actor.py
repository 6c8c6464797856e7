# SPDX-License-Identifier: Apache-2.0
"""The reward actor: resolves the catalog where it runs, makes its own providers, evaluates chunks of groups."""

from __future__ import annotations

import os
import socket
import threading
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack
from time import perf_counter
from typing import Any, final

import msgspec

from posttrain.errors import RewardError
from posttrain.execution import wire
from posttrain.execution.ray.chunk import Chunk
from posttrain.execution.ray.messages import Answer, Order, Ready
from posttrain.execution.ray.resolving import resolve
from posttrain.rewards.contract.lifecycle import opened
from posttrain.rewards.stage.prepare import PreparedProvider

__all__ = ["RewardActor"]


@final
class RewardActor:
    """Lives in a Ray worker. `evaluate` runs in one thread; the control methods answer beside it.

    Nothing raises out of a method: a failure is an encoded error of the tree, which keeps its kind and its names.
    """

    def __init__(self) -> None:
        self._prepared: tuple[PreparedProvider, ...] = ()
        self._executors: tuple[Executor | None, ...] = ()
        self._life = ExitStack()
        self._chunks: dict[int, Chunk] = {}
        self._last = 0
        self._cut = False
        self._recalled: set[int] = set()
        self._lock = threading.Lock()

    def start(self, order: bytes) -> bytes:
        """Become what the order says: resolve, compare, check the machine, construct, open."""
        error = None
        try:
            wanted = msgspec.msgpack.decode(order, type=Order)
            self._prepared, limits = resolve(wanted, self._where())
            self._life = opened({each.name: each.provider for each in self._prepared})
            self._executors = tuple(
                ThreadPoolExecutor(limit, thread_name_prefix=f"posttrain-{each.name}") if limit > 1 else None
                for each, limit in zip(self._prepared, limits, strict=True)
            )
        except RewardError as failure:
            error = bytes(wire.encode_error(failure))
        return msgspec.msgpack.encode(Ready(os.getpid(), _node(), socket.gethostname(), error))

    def evaluate(self, epoch: int, collect_unavailable: bool, payload: bytes) -> bytes:  # noqa: FBT001  # Ray's call
        """Evaluate one chunk; the answer is an encoded `Answer`."""
        chunk = Chunk(epoch, wire.decode_groups(payload), collect_unavailable=collect_unavailable)
        with self._lock:
            self._chunks[epoch], self._last = chunk, epoch
            if self._cut or epoch in self._recalled:
                chunk.stop()
        started = perf_counter()
        try:
            chunk.run(self._prepared, self._executors)
            return _answer(chunk, perf_counter() - started)
        finally:
            with self._lock:
                del self._chunks[epoch]
                self._recalled.discard(epoch)

    def progress(self) -> list[tuple[int, tuple[tuple[int, str, float], ...]]]:
        """Of every chunk under way: epoch, and position, provider and seconds of each group in a provider's hands."""
        return [
            (epoch, tuple((each.position, each.provider, each.seconds) for each in chunk.running()))
            for epoch, chunk in list(self._chunks.items())
        ]

    def stop(self, epoch: int) -> None:
        """Begin no further group of that dispatch."""
        chunk = self._chunks.get(epoch)
        if chunk is not None:
            chunk.stop()

    def recall(self, epochs: list[int]) -> list[int]:
        """Give back those of the dispatches that are not begun: they will not be."""
        with self._lock:
            # Chunks come in the order of their epochs, so a later one than the last is not begun.
            recalled = [epoch for epoch in epochs if epoch > self._last]
            self._recalled.update(recalled)
        return recalled

    def salvage(self) -> list[bytes]:
        """Begin nothing any more, and give what is done: the actor is about to be killed."""
        with self._lock:
            self._cut = True
            chunks = list(self._chunks.values())
        for chunk in chunks:
            chunk.stop()
        return [_answer(chunk, 0.0) for chunk in chunks]

    def close(self) -> bytes | None:
        """Close the providers; an encoded error when one fails to."""
        for executor in self._executors:
            if executor is not None:
                executor.shutdown()
        life, self._life = self._life, ExitStack()
        try:
            life.close()
        except RewardError as failure:
            return bytes(wire.encode_error(failure))
        return None

    def _where(self) -> str:
        return f"the reward actor {os.getpid()} on {socket.gethostname()} (node {_node()[:12]})"


def _answer(chunk: Chunk, seconds: float) -> bytes:
    outcomes, running, begun = chunk.snapshot()
    encoded = bytes(wire.encode_outcomes(chunk.groups, outcomes))
    return msgspec.msgpack.encode(Answer(chunk.epoch, encoded, running, begun, seconds))


def _node() -> str:
    import ray

    node: Any = ray.get_runtime_context().get_node_id()
    return str(node)
