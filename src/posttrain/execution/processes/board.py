# SPDX-License-Identifier: Apache-2.0
"""A few numbers in memory that a worker and its driver share: where the worker is, readable when it says nothing more.

A worker that hangs in C code or was killed can't tell what it was at. So it writes that down before it begins, at the
cost of a few stores to memory.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import tempfile
from contextlib import suppress
from typing import Final, final

__all__ = ["Board", "board_descriptor"]

_CELLS: Final = 8
_SIZE: Final = 8 * _CELLS
_F_ADD_SEALS: Final = 1033
_F_SEAL_FUTURE_WRITE: Final = 0x10


def board_descriptor() -> int:
    """A file without a name that holds a board, all zero. The caller closes it."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("posttrain-board", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    else:
        descriptor, name = tempfile.mkstemp()
        os.unlink(name)  # noqa: PTH108  # a descriptor and its name, no path of interest
    os.ftruncate(descriptor, _SIZE)
    return descriptor


@final
class Board:
    """The numbers. Each cell is written by one side only, and read whole."""

    __slots__ = ("_memory", "cells")

    STARTED: Final = 0
    """Number of the group that the worker began last; 0: none yet."""
    SINCE: Final = 1
    """When it began, in nanoseconds of the monotonic clock, which all processes share."""
    PROVIDER: Final = 2
    """Index of the provider that is at work, or of the step while a worker starts."""
    CANDIDATE: Final = 3
    """Index of the candidate that `map_candidates` is at, plus one; 0: unknown."""
    CANCELLED: Final = 4
    """Written by the driver: groups from this number on are not to be begun any more; 0: all may be."""

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, _SIZE)
        self.cells = memoryview(self._memory).cast("q")

    def seal(self, descriptor: int) -> None:
        """Refuse writes through any descriptor of the file from now on; the memory of both sides stays writable."""
        with suppress(OSError):  # where the system has no seals
            fcntl.fcntl(descriptor, _F_ADD_SEALS, _F_SEAL_FUTURE_WRITE)

    def close(self) -> None:
        """Let go of the memory."""
        self.cells.release()
        self._memory.close()
