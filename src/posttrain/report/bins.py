# SPDX-License-Identifier: Apache-2.0
"""Bins over a range that nobody knows beforehand: their width is a power of two and doubles when they get too many."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

__all__ = ["Bin", "Bins"]

_OCCUPIED: Final = 512


@final
@dataclass(slots=True)
class Bin:
    """The candidates whose key lies in one bin, with the mean and the spread of their rewards."""

    count: int = 0
    truncated: int = 0
    mean: float = 0.0
    squares: float = 0.0
    """Sum of squared deviations from the mean."""

    def add(self, value: float, *, truncated: bool) -> None:
        """Add one candidate's reward."""
        self.count += 1
        self.truncated += truncated
        step = value - self.mean
        self.mean += step / self.count
        self.squares += step * (value - self.mean)

    def merge(self, other: Bin) -> None:
        """Add all that another bin holds."""
        total = self.count + other.count
        step = other.mean - self.mean
        self.squares += other.squares + step * step * self.count * other.count / total
        self.mean += step * other.count / total
        self.count = total
        self.truncated += other.truncated

    @property
    def std(self) -> float:
        """Population standard deviation of the rewards; not finite where they are beyond the range of a float."""
        return math.sqrt(self.squares / self.count) if self.squares >= 0 else math.nan


@final
class Bins:
    """Bins ``[n 2^k, (n + 1) 2^k)``: the finest of which not too many are occupied, whatever order the keys come in.

    Args:
        exponent: the finest ``k`` to begin with.
    """

    __slots__ = ("_bins", "_exponent", "count")

    def __init__(self, exponent: int) -> None:
        self.count = 0
        """How many candidates were added."""
        self._exponent = exponent
        self._bins: dict[int, Bin] = {}

    def add(self, key: float, value: float, *, truncated: bool = False) -> None:
        """Add a candidate to the bin of `key`."""
        self.count += 1
        at = self._place(key)
        found = self._bins.get(at)
        if found is None:
            self._bins[at] = found = Bin()
        found.add(value, truncated=truncated)
        while len(self._bins) > _OCCUPIED:
            self._coarsen()

    def _place(self, key: float) -> int:
        while True:
            try:
                return math.floor(math.ldexp(key, -self._exponent))
            except OverflowError:
                self._coarsen()

    def _coarsen(self) -> None:
        self._exponent += 1
        coarse: dict[int, Bin] = {}
        for at, each in self._bins.items():
            if (found := coarse.get(at >> 1)) is None:
                coarse[at >> 1] = each
            else:
                found.merge(each)
        self._bins = coarse

    def shown(self, most: int) -> list[tuple[float, float, Bin]]:
        """Lower and upper bound of each occupied bin, in order, made so coarse that the whole range has `most` bins."""
        while self._bins and max(self._bins) - min(self._bins) >= most:
            self._coarsen()
        width = self._exponent
        return [(_scaled(at, width), _scaled(at + 1, width), each) for at, each in sorted(self._bins.items())]


def _scaled(at: int, exponent: int) -> float:
    try:
        return math.ldexp(at, exponent)
    except OverflowError:
        return math.copysign(math.nextafter(math.inf, 0), at)
