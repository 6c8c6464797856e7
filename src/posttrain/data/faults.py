# SPDX-License-Identifier: Apache-2.0
"""Every fault of a source's rows in one error of bounded length, and the rows that lack a value."""

from __future__ import annotations

from typing import Final, final

from posttrain.errors import RewardContractError, listing

__all__ = ["LISTED", "Faults", "Gaps"]

LISTED: Final = 20
"""How many offenders are named; the rest is counted."""


@final
class Faults:
    """Collects faults while the rows are read on: the words of the first few and the number of all."""

    __slots__ = ("_cause", "_kept", "total")

    def __init__(self) -> None:
        self._kept: list[tuple[int, str]] = []
        self._cause: BaseException | None = None
        self.total = 0

    def add(self, at: int, place: str, text: str, cause: BaseException | None = None) -> None:
        """Note a fault.

        Args:
            at: sorts it among the others.
            place: what the row is called.
            text: what is wrong with it.
            cause: the exception behind it.
        """
        self.total += 1
        if self._cause is None:
            self._cause = cause
        if len(self._kept) < LISTED:
            self._kept.append((at, f"{place}: {text}"))

    def count(self, more: int) -> None:
        """Note faults that are only counted."""
        self.total += more

    def error(self, title: str) -> RewardContractError:
        """All of them as one error about the source of that title, caused by the first exception among them."""
        # A stable sort: what was noted first about a row is said first.
        lines = [line for _, line in sorted(self._kept, key=lambda kept: kept[0])]
        if self.total > len(lines):
            lines.append(f"... and {self.total - len(lines)} more")
        faults = "1 fault" if self.total == 1 else f"{self.total} faults"
        error = RewardContractError(f"{title}: {faults} in the rows:\n{listing(lines, limit=LISTED + 1)}")
        error.__cause__ = self._cause
        return error


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
