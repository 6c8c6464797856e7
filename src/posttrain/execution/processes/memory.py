# SPDX-License-Identifier: Apache-2.0
"""Resident memory of a process and of what it started."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["resident_bytes"]

_PAGE = os.sysconf("SC_PAGE_SIZE")


def resident_bytes(pid: int) -> int:
    """Bytes in memory of a process and its descendants; pages that several of them share count for each.

    0 where the process is gone, or where the system has no ``/proc``.
    """
    total, waiting, seen = 0, [pid], set[int]()
    while waiting:
        each = waiting.pop()
        if each in seen:
            continue
        seen.add(each)
        try:
            total += int(Path(f"/proc/{each}/statm").read_text(encoding="ascii").split()[1]) * _PAGE
            for task in os.listdir(f"/proc/{each}/task"):  # noqa: PTH208  # names alone, and often
                children = Path(f"/proc/{each}/task/{task}/children").read_text(encoding="ascii")
                waiting += map(int, children.split())
        except OSError:
            continue  # it ended meanwhile, or the kernel tells no children
    return total
