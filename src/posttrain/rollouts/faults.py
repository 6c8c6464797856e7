# SPDX-License-Identifier: Apache-2.0
"""Every fault of a file's rows, in one error of bounded length."""

from __future__ import annotations

from pathlib import Path
from typing import final

from posttrain.errors import RewardContractError, listing

__all__ = ["RowFaults"]

_LISTED = 20


@final
class RowFaults:
    """Collects faults while the file is read on; keeps the words of the first few and the number of all."""

    __slots__ = ("_kept", "_total")

    def __init__(self) -> None:
        self._kept: list[tuple[int, str]] = []
        self._total = 0

    def __len__(self) -> int:
        """How many faults there were."""
        return self._total

    @property
    def room(self) -> int:
        """How many more faults would be kept in words."""
        return _LISTED - len(self._kept)

    def add(self, row: int, text: str) -> None:
        """Note a fault of the row of that number."""
        self._total += 1
        if self.room:
            self._kept.append((row, text))

    def add_unlisted(self, count: int = 1) -> None:
        """Note faults that are only counted."""
        self._total += count

    def error(self, path: Path) -> RewardContractError:
        """All of them, in the order of the file."""
        # A stable sort: what was noted first about a row is said first.
        lines = [f"row {row}: {text}" for row, text in sorted(self._kept, key=lambda fault: fault[0])]
        if self._total > len(lines):
            lines.append(f"... and {self._total - len(lines)} more")
        faults = "1 fault" if self._total == 1 else f"{self._total} faults"
        return RewardContractError(f"{path.name}: {faults} in the rows:\n{listing(lines, limit=_LISTED + 1)}")
