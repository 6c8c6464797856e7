# SPDX-License-Identifier: Apache-2.0
"""Every fault of a file's rows, in one error of bounded length."""

from __future__ import annotations

from typing import Final, final

from posttrain.errors import RewardContractError, listing

__all__ = ["LISTED", "Faults"]

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

    def __len__(self) -> int:
        """How many faults there were."""
        return self.total

    @property
    def room(self) -> int:
        """How many more faults would be kept in words."""
        return LISTED - len(self._kept)

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
        if self.room:
            self._kept.append((at, f"{place}: {text}"))

    def add_row(self, number: int, text: str) -> None:
        """Note a fault of the row of that number, counted from 1."""
        self.add(number, f"row {number}", text)

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
