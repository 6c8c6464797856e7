# SPDX-License-Identifier: Apache-2.0
"""The terms of a candidate become one terminal reward."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from operator import mul
from typing import final

from posttrain.errors import RewardConfigError, RewardContractError, describe, listing
from posttrain.rewards.metrics.real import as_real

__all__ = ["RewardCombiner"]


@final
class RewardCombiner:
    """The weighted sum of the terms: each product and the sum of them all rounded once, whatever their order.

    Args:
        weights: term to a finite weight; 0 keeps a term out of the reward and in the report, a negative one punishes.

    Raises:
        RewardConfigError: naming every weight that is not a finite number.
    """

    __slots__ = ("weights",)

    def __init__(self, weights: Mapping[str, float]) -> None:
        faults = [
            f"weight of {term!r}: expected a finite number, got {describe(weight)}"
            for term, weight in weights.items()
            if as_real(weight) is None
        ]
        if faults:
            raise RewardConfigError(f"the weights are not valid:\n{listing(faults)}")
        self.weights: Mapping[str, float] = {term: float(weight) for term, weight in weights.items()}

    def __repr__(self) -> str:
        return f"RewardCombiner({self.weights!r})"

    @classmethod
    def of_terms(cls, terms: Iterable[str], weights: Mapping[str, float] | None = None) -> RewardCombiner:
        """A combiner of exactly these terms; a term without a weight has 1.0.

        Raises:
            RewardConfigError: a weight is for a term that no selected provider declares.
        """
        terms, weights = tuple(terms), {} if weights is None else weights
        if not isinstance(weights, Mapping):
            raise RewardConfigError(f"weights: expected a mapping from term to number, got {describe(weights)}")
        if unknown := [repr(term) for term in weights if term not in terms]:
            raise RewardConfigError(f"weights for unknown terms {', '.join(unknown)}; the terms are {', '.join(terms)}")
        return cls({term: weights.get(term, 1.0) for term in terms})

    def combine(self, terms: Mapping[str, Sequence[float]], trajectory_ids: Sequence[str] = ()) -> tuple[float, ...]:
        """``final`` of each candidate of a group, [group_size].

        Args:
            terms: exactly the combiner's terms, each [group_size] finite values.
            trajectory_ids: the candidates, for an error to name; without them it gives their places.

        Raises:
            RewardContractError: a sum is beyond the range of a float; every such candidate is named.
        """
        if len(self.weights) == 1:
            ((term, weight),) = self.weights.items()
            if weight == 1.0:
                return tuple(terms[term])
        weights = list(self.weights.values())
        rows = list(zip(*(terms[term] for term in self.weights), strict=True))
        try:
            return tuple([_weighted_sum(weights, row) for row in rows])
        except OverflowError:
            raise _beyond_range(weights, rows, trajectory_ids) from None


def _weighted_sum(weights: list[float], row: tuple[float, ...]) -> float:
    products = list(map(mul, weights, row))
    try:
        total = math.fsum(products)
    except (OverflowError, ValueError):
        # A partial sum left the range, or two products did on opposite sides.
        total = math.inf
    if math.isfinite(total):
        return total
    if all(map(math.isfinite, products)):
        return float(sum(map(Fraction, products)))
    return float(sum(map(mul, map(Fraction, weights), map(Fraction, row))))


def _beyond_range(
    weights: list[float], rows: list[tuple[float, ...]], trajectory_ids: Sequence[str]
) -> RewardContractError:
    offenders = []
    for index, row in enumerate(rows):
        try:
            _weighted_sum(weights, row)
        except OverflowError:
            offenders.append(index)
    names = [trajectory_ids[index] if trajectory_ids else f"[{index}]" for index in offenders]
    return RewardContractError(
        f"the weighted sum of the terms is beyond the range of a float:\n{listing(names)}",
        trajectory_id=names[0] if trajectory_ids and len(names) == 1 else None,
    )
