# SPDX-License-Identifier: Apache-2.0
"""A set of ids too many to keep: it remembers 64 bits of each."""

from __future__ import annotations

from array import array
from typing import final

__all__ = ["DigestSet"]

_SLOTS = 1 << 10


@final
class DigestSet:
    """Remembers a keyed digest of each text, in 12 to 24 bytes (36 for the moment in which the table grows).

    A text that was never added may be taken for one that was (chance n / 2^64 each, for n texts), so a hit is a
    suspicion and needs an exact check; a miss is certain. The digest is the interpreter's own hash of strings, keyed
    anew in each process, so nobody can prepare a file full of suspicions.

    Args:
        bits: length of the digest, 1 to 64; fewer than 64 only serve to show what a collision does.
    """

    __slots__ = ("_bits", "_count", "_digest_mask", "_limit", "_slot_mask", "_table")

    def __init__(self, *, bits: int = 64) -> None:
        self._bits = bits
        self._digest_mask = (1 << bits) - 1
        self._count = 0
        self._resize(_SLOTS)

    def __len__(self) -> int:
        """How many different digests it holds."""
        return self._count

    @property
    def nbytes(self) -> int:
        """Size of the table."""
        return len(self._table) * self._table.itemsize

    def add(self, text: str | bytes) -> bool:
        """Remember `text`; whether its digest was there already."""
        # Zero marks a free slot, so the digest zero shares that of one.
        digest = hash(text) & self._digest_mask or 1
        table, mask = self._table, self._slot_mask
        slot = digest & mask
        while held := table[slot]:
            if held == digest:
                return True
            slot = (slot + 1) & mask
        table[slot] = digest
        self._count += 1
        if self._count > self._limit:
            self._grow()
        return False

    def _resize(self, slots: int) -> None:
        self._table = array("Q", bytes(8 * slots))
        self._slot_mask = slots - 1
        self._limit = slots * 2 // 3

    def _grow(self) -> None:
        old = self._table
        self._resize(2 * len(old))
        table, mask = self._table, self._slot_mask
        for digest in old:
            if digest:
                slot = digest & mask
                while table[slot]:
                    slot = (slot + 1) & mask
                table[slot] = digest
