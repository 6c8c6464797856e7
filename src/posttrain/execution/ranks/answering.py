# SPDX-License-Identifier: Apache-2.0
"""A store whose calls come back: one that does not answer is a lost store, not a rank that hangs."""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias, final

from posttrain.execution.ranks.store import RankStore

__all__ = ["AnsweringStore"]

_Answer: TypeAlias = "SimpleQueue[tuple[Any, Exception | None]]"
_Job: TypeAlias = "tuple[str, tuple[Any, ...], _Answer]"


@final
class AnsweringStore:
    """Makes the calls of another store in a thread of its own, and waits for each only so long.

    torch's TCP store has no bound for most of its calls: when the process that holds it is stopped (not dead), they
    wait for ever, and no interrupt gets through to them.

    Args:
        store: the store to ask.
        limit_s: seconds that a call may take.
    """

    def __init__(self, store: RankStore, limit_s: float) -> None:
        self._store = store
        self._limit_s = limit_s
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        threading.Thread(target=self._work, name="posttrain-rank-store", daemon=True).start()

    def set(self, key: str, value: bytes) -> None:
        """See `RankStore.set`."""
        self._call("set", key, value)

    def get(self, key: str) -> bytes:
        """See `RankStore.get`."""
        return bytes(self._call("get", key))

    def check(self, keys: list[str]) -> bool:
        """See `RankStore.check`."""
        return bool(self._call("check", keys))

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        """See `RankStore.compare_set`."""
        return bytes(self._call("compare_set", key, expected, desired))

    def delete_key(self, key: str) -> bool:
        """See `RankStore.delete_key`."""
        return bool(self._call("delete_key", key))

    def _call(self, name: str, *arguments: Any) -> Any:
        answer: _Answer = SimpleQueue()
        self._jobs.put((name, arguments, answer))
        try:
            value, error = answer.get(timeout=self._limit_s)
        except Empty:
            raise TimeoutError(f"no answer within {self._limit_s:g} s") from None
        if error is not None:
            raise error
        return value

    def _work(self) -> None:
        while True:
            name, arguments, answer = self._jobs.get()
            try:
                answer.put((getattr(self._store, name)(*arguments), None))
            except (RuntimeError, OSError, LookupError, ValueError, TypeError) as error:
                # Raised where the call was made. Of any other this thread dies, and the calls find no answer.
                answer.put((None, error))
