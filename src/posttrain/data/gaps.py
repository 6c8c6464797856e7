# SPDX-License-Identifier: Apache-2.0
"""The rows that lack a value."""

from __future__ import annotations

from typing import final

from posttrain.jsonl.faults import LISTED

__all__ = ["Gaps"]


@final
class Gaps:
    """The rows in which one canonical field is missing or null."""

    __slots__ = ("first", "total")

    def __init__(self) -> None:
        self.first: list[int] = []
        """The first few of them, each counted from 0."""
        self.total = 0
        """How many there are."""

    @classmethod
    def everywhere(cls, rows: int) -> Gaps:
        """All of a source's rows."""
        gaps = cls()
        gaps.first, gaps.total = list(range(min(rows, LISTED))), rows
        return gaps

    def add(self, index: int) -> None:
        """Note a row."""
        self.total += 1
        if len(self.first) < LISTED:
            self.first.append(index)
