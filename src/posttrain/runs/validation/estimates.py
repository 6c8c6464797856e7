# SPDX-License-Identifier: Apache-2.0
"""What several completions of one prompt are worth together: best of n, and pass@k where a term is binary.

With n candidates of which c pass, the share of the choices of k candidates that hold at least one that passes is

    pass@k = 1 - C(n - c, k) / C(n, k)

which is an unbiased estimate for every k up to n (Chen et al., "Evaluating Large Language Models Trained on Code",
2021, arXiv 2107.03374, section 2.1). Groups are averaged. All of it is rational arithmetic, rounded once at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import groupby
from math import comb
from operator import attrgetter
from typing import Final, final

import msgspec

from posttrain.rewards.metrics.exact import Parts, exact_sum, quotient
from posttrain.runs.offline.record import ScoredRow

__all__ = ["choices_of_k", "held_out_metrics", "pass_at_k"]

_STRETCH: Final = 4096
_BINARY: Final = frozenset({0.0, 1.0})
_FINAL: Final = "final"

_decode = msgspec.json.Decoder(ScoredRow).decode


def pass_at_k(passed: Mapping[int, int], n: int, k: int) -> float:
    """The mean of pass@k over groups of `n` candidates, correctly rounded.

    Args:
        passed: number of candidates of a group that pass, 0 to `n`, to how many groups have it; at least one group.
        n: candidates per group.
        k: candidates that are chosen, 1 to `n`.
    """
    every = comb(n, k)
    hits = sum(groups * (every - comb(n - count, k)) for count, groups in passed.items())
    return float(Fraction(hits, every * sum(passed.values())))


def choices_of_k(n: int) -> list[int]:
    """The k that pass@k is told for: every power of two up to `n`, and `n` itself; ascending."""
    return sorted({1 << exponent for exponent in range(n.bit_length())} | {n})


@final
@dataclass(slots=True)
class _Column:
    """One term, or ``final``, over the groups seen so far."""

    best: list[float] = field(default_factory=list)
    """Largest value of each group since the last stretch."""
    best_sum: Parts = ()
    passed: Counter[int] | None = field(default_factory=Counter)
    """Number of ones in a group to how many groups have it; None: a value was neither 0 nor 1."""

    def add(self, values: list[float]) -> None:
        """Add a group."""
        self.best.append(max(values))
        if len(self.best) >= _STRETCH:
            self.settle()
        if self.passed is not None and _BINARY.issuperset(values):
            self.passed[values.count(1.0)] += 1
        else:
            self.passed = None

    def settle(self) -> Parts:
        """Exact sum of the groups' largest values."""
        self.best_sum = exact_sum([*self.best_sum, *self.best])
        self.best.clear()
        return self.best_sum


def held_out_metrics(rows: Iterable[bytes], weights: Mapping[str, float], n: int) -> dict[str, float]:
    """Best of n and pass@k over the scored groups of a validation; nothing where none is scored.

    ``val/reward/final/best_of_<n>`` is the mean over groups of the best final reward. A term whose values are all 0 or
    1 has ``val/reward/<term>/pass_at_<k>``, for the powers of two up to n and n. Any other term of which more is
    better, since its weight is positive, has ``val/reward/<term>/best_of_<n>``.

    Args:
        rows: scored rows as JSON lines; the rows of a group stand together.
        weights: every term to its weight.
        n: candidates per group.
    """
    columns = {name: _Column() for name in (_FINAL, *weights)}
    groups = 0
    for _, group in groupby(map(_decode, rows), key=attrgetter("group_id")):
        members = list(group)
        if members[0].dropped_because is not None:
            continue
        groups += 1
        for name, column in columns.items():
            column.add([row.reward[name] for row in members])
    if not groups:
        return {}
    found: dict[str, float] = {}
    for name, column in columns.items():
        if name != _FINAL and column.passed is not None:
            found |= {f"{name}/pass_at_{k}": pass_at_k(column.passed, n, k) for k in choices_of_k(n)}
        elif name == _FINAL or weights[name] > 0:
            found[f"{name}/best_of_{n}"] = quotient(column.settle(), (float(groups),))
    return {f"val/reward/{key}": value for key, value in found.items()}
