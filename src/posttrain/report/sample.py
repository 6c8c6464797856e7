# SPDX-License-Identifier: Apache-2.0
"""A bounded choice of groups, the same for the same groups in any order, in which each had the same chance."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable
from typing import Generic, TypeVar, final

__all__ = ["Sample"]

T = TypeVar("T")


@final
class Sample(Generic[T]):
    """Keeps the groups with the smallest digests of their names, as many as fit.

    Args:
        room: how many candidates may be kept.
        always: names of groups that are kept whatever their digests.
    """

    def __init__(self, room: int, always: frozenset[str] = frozenset()) -> None:
        self._room = room
        self._always = always
        self._kept: list[tuple[int, int, T]] = []
        self._sizes: dict[int, int] = {}
        self._held = 0
        self._limit = 1 << 64
        self._offered = 0

    def offer(self, step: int, group_id: str, size: int, make: Callable[[], T]) -> None:
        """Offer a group with `size` candidates; `make` gives what is kept of it, and is called only if it is."""
        order = self._offered
        self._offered += 1
        digest = -1 if group_id in self._always else _digest(step, group_id)
        if digest >= self._limit:
            return
        heapq.heappush(self._kept, (-digest, order, make()))
        self._sizes[order] = size
        self._held += size
        while self._held > self._room and self._kept[0][0] <= 0:
            top, gone, _ = heapq.heappop(self._kept)
            self._held -= self._sizes.pop(gone)
            # Nothing behind the first one that did not fit gets in: small groups would be kept more often.
            self._limit = -top

    @property
    def is_partial(self) -> bool:
        """Whether a group was left out."""
        return len(self._kept) < self._offered

    @property
    def offered(self) -> int:
        """How many groups were offered."""
        return self._offered

    def kept(self) -> list[T]:
        """What was kept, in the order in which it was offered."""
        return [each for _, _, each in sorted(self._kept, key=lambda entry: entry[1])]


def _digest(step: int, group_id: str) -> int:
    name = f"{step}/{group_id}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big")
