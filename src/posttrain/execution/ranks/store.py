# SPDX-License-Identifier: Apache-2.0
"""Where ranks meet: a small key-value store. `torch.distributed`'s stores fit as they are; one in memory is here."""

from __future__ import annotations

from typing import Protocol, final

__all__ = ["MemoryStore", "RankStore"]


class RankStore(Protocol):
    """Keys to bytes, seen by every rank. No call waits for another rank."""

    def set(self, key: str, value: bytes) -> None:
        """Write a key."""
        ...

    def get(self, key: str) -> bytes:
        """Read a key that is there."""
        ...

    def check(self, keys: list[str]) -> bool:
        """Whether all of the keys are there."""
        ...

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        """Write a key if it is absent (`expected` is always empty), as one step; gives what it holds afterwards."""
        ...

    def delete_key(self, key: str) -> bool:
        """Remove a key; whether it was there."""
        ...


@final
class MemoryStore:
    """A store for ranks that are threads of one process, or for a single rank.

    Each call is one operation on a dict, which no thread and no interrupt can cut in two; so it needs no lock, which
    an interrupt could leave locked.
    """

    def __init__(self) -> None:
        self._held: dict[str, bytes] = {}

    def set(self, key: str, value: bytes) -> None:
        """See `RankStore.set`."""
        self._held[key] = value

    def get(self, key: str) -> bytes:
        """See `RankStore.get`."""
        return self._held[key]

    def check(self, keys: list[str]) -> bool:
        """See `RankStore.check`."""
        return all(key in self._held for key in keys)

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        """See `RankStore.compare_set`; only absent keys are compared."""
        if expected:
            raise ValueError(f"expected has to be empty, got {expected!r}")
        return self._held.setdefault(key, desired.encode())

    def delete_key(self, key: str) -> bool:
        """See `RankStore.delete_key`."""
        return self._held.pop(key, None) is not None

    def __len__(self) -> int:
        """How many keys it holds."""
        return len(self._held)
