# SPDX-License-Identifier: Apache-2.0
"""The order in which an epoch draws the rows: a permutation that is computed place by place and held nowhere."""

from __future__ import annotations

import hashlib
import struct
from math import isqrt
from typing import Final, final

__all__ = ["Order"]

_ROUNDS: Final = 8
_MASK: Final = (1 << 64) - 1


@final
class Order:
    """A pseudo-random permutation of the numbers 0 to `rows` - 1, fixed by `seed` and `epoch` alone.

    The numbers are laid out in a rectangle of about the square root of `rows` a side. Each round shifts every row of it
    by a keyed hash of the row's number, then every column alike (a Feistel network): each step can be undone, so the
    whole is a permutation of the rectangle. A place that falls on one of the few cells beyond `rows` is sent through
    once more until it does not, which keeps it one (cycle walking).

    Args:
        rows: how many numbers there are, at least 1.
        seed: any int.
        epoch: any int.
    """

    __slots__ = ("_height", "_keys", "_rows", "_width")

    def __init__(self, rows: int, *, seed: int, epoch: int) -> None:
        self._rows = rows
        self._width = isqrt(rows - 1) + 1
        self._height = -(-rows // self._width)
        digest = b"".join(
            hashlib.blake2b(f"{seed}/{epoch}/{part}".encode(), digest_size=64).digest() for part in range(_ROUNDS // 4)
        )
        self._keys = struct.unpack(f"<{2 * _ROUNDS}Q", digest)

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, position: int) -> int:
        """The number at a place, 0 <= `position` < `rows`."""
        if not 0 <= position < self._rows:
            raise IndexError(f"an order of {self._rows} has no place {position}")
        width, height, keys = self._width, self._height, self._keys
        cell = position
        while True:
            across, down = cell % width, cell // width
            for at in range(0, 2 * _ROUNDS, 2):
                across = (across + _mixed(down ^ keys[at])) % width
                down = (down + _mixed(across ^ keys[at + 1])) % height
            cell = down * width + across
            if cell < self._rows:
                return cell


def _mixed(value: int) -> int:
    """64 bits that each depend on all bits of a number of 64 bits."""
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _MASK
    return value ^ value >> 31
