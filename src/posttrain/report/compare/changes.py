# SPDX-License-Identifier: Apache-2.0
"""How one column of numbers, a term, the final reward or the advantage, changed from A to B."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias, final

import msgspec

__all__ = ["ColumnChange", "ColumnKind", "TermChange", "finite"]

ColumnKind: TypeAlias = Literal["final", "advantage", "term"]


@final
class TermChange(msgspec.Struct, frozen=True, kw_only=True):
    """One column over the candidates that both sides scored; a number is None where there is none, or no float."""

    kind: ColumnKind
    name: str
    """Of the term; a term may be called advantage, too."""
    only: Literal["A", "B"] | None
    """The side that alone has the term."""
    candidates: int
    """Candidates that have it on both sides; of a term of one side, on that one."""
    mean_a: float | None
    """None for the advantage, as `mean_b` and `change` are: its mean is 0 by construction."""
    mean_b: float | None
    change: float | None
    """Mean in B minus mean in A."""
    changed: float | None
    """Share of the candidates whose value is another one."""
    size: float | None
    """Mean of the absolute changes."""
    largest: float | None
    """Largest absolute change."""


@final
class ColumnChange:
    """Adds up one column group by group."""

    __slots__ = ("_a", "_b", "_changed", "_count", "_kind", "_largest", "_name", "_size", "_sum_a", "_sum_b")

    def __init__(self, name: str, kind: ColumnKind = "term") -> None:
        self._name = name
        self._kind = kind
        self._a = self._b = self._count = self._changed = 0
        self._sum_a = self._sum_b = self._size = self._largest = 0.0

    def add(self, a: Sequence[float] | None, b: Sequence[float] | None) -> None:
        """Add the values of a group's common candidates on both sides; None: that side has no such column."""
        if a is not None:
            self._a += len(a)
            self._sum_a += sum(a)
        if b is not None:
            self._b += len(b)
            self._sum_b += sum(b)
        if a is None or b is None:
            return
        self._count += len(a)
        sizes = [abs(right - left) for left, right in zip(a, b, strict=True)]
        self._changed += sum(left != right for left, right in zip(a, b, strict=True))
        self._size += sum(sizes)
        self._largest = max(self._largest, *sizes)

    def result(self) -> TermChange:
        """What came of it."""
        mean_a, mean_b = _mean(self._sum_a, self._a), _mean(self._sum_b, self._b)
        if self._kind == "advantage":
            mean_a = mean_b = None
        return TermChange(
            kind=self._kind,
            name=self._name,
            only=None if self._a and self._b else "A" if self._a else "B",
            candidates=self._count if self._a and self._b else self._a + self._b,
            mean_a=mean_a,
            mean_b=mean_b,
            change=finite(mean_b - mean_a) if mean_a is not None and mean_b is not None else None,
            changed=_mean(self._changed, self._count),
            size=_mean(self._size, self._count),
            largest=finite(self._largest) if self._count else None,
        )


def _mean(total: float, count: int) -> float | None:
    return finite(total / count) if count else None


def finite(value: float) -> float | None:
    """The value, or None where it left the range of a float."""
    return value if math.isfinite(value) else None
