# SPDX-License-Identifier: Apache-2.0
"""The terms of a candidate become one terminal reward."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import final

from posttrain.errors import RewardConfigError, RewardContractError, describe, listing
from posttrain.rewards.metrics.real import as_real

__all__ = ["RewardCombiner"]


@final
class RewardCombiner:
    """The weighted sum of the terms, exact until its one rounding, so the order of terms does not matter.

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

    def combine(self, terms: Mapping[str, Sequence[float]]) -> tuple[float, ...]:
        """``final`` of each candidate of a group, [group_size].

        Args:
            terms: exactly the combiner's terms, each [group_size] finite values.

        Raises:
            RewardContractError: a sum is beyond the range of a float; the message gives its place in the group.
        """
        if len(self.weights) == 1:
            ((term, weight),) = self.weights.items()
            if weight == 1.0:
                return tuple(terms[term])
        weights = list(self.weights.values())
        rows = zip(*(terms[term] for term in self.weights), strict=True)
        return tuple([_weighted_sum(weights, row, index) for index, row in enumerate(rows)])


def _weighted_sum(weights: list[float], row: tuple[float, ...], index: int) -> float:
    try:
        total = math.fsum([weight * value for weight, value in zip(weights, row, strict=True)])
    except (OverflowError, ValueError):
        total = math.inf
    if not math.isfinite(total):
        raise RewardContractError(f"candidate [{index}]: the weighted sum of its terms is beyond the range of a float")
    return total
