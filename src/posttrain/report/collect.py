# SPDX-License-Identifier: Apache-2.0
"""Everything that a report says in numbers, added up group by group: a few numbers a step, however many groups."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, final

from posttrain.report.bins import Bins
from posttrain.report.group import ScoredGroup
from posttrain.report.shares import (
    AdvantageShares,
    Columns,
    RewardShares,
    advantage_parts,
    deviations,
    weights_explain,
)
from posttrain.report.spread import TermRanges, ZeroSpread, zero_spread
from posttrain.rewards.metrics.moments import Moments, merge_moments
from posttrain.schema import is_length_verdict

__all__ = ["Collected", "GroupNumbers", "Lengths", "StepSums"]

_BUFFER: Final = 4096
_FINEST_REWARD: Final = -20
_FEW: Final = 24


@final
@dataclass(slots=True)
class StepSums:
    """What is added up of one step."""

    groups: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    """Cause to dropped groups."""
    candidates: int = 0
    truncated: int = 0
    unknown: int = 0
    """Candidates without a verdict of the engine."""
    zero: Counter[ZeroSpread] = field(default_factory=Counter)
    spread_sum: float = 0.0
    """Sum of the groups' sample standard deviations."""
    spread_groups: int = 0
    """How many groups those are."""
    terms: dict[str, list[float]] = field(default_factory=dict)
    """Term to the sum of its raw values and their number."""
    shares: AdvantageShares = field(default_factory=AdvantageShares)
    moments: Moments = field(default_factory=Moments)
    _finals: list[float] = field(default_factory=list)

    def add_finals(self, finals: list[float]) -> None:
        """Add final rewards."""
        self._finals += finals
        if len(self._finals) > _BUFFER:
            self.settle()

    def settle(self) -> None:
        """Bring `moments` up to date."""
        if self._finals:
            self.moments = merge_moments([self.moments, Moments.of(self._finals)])
            self._finals = []


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GroupNumbers:
    """What was found out about one group on the way."""

    std: float | None
    """Sample standard deviation of its final rewards; None: dropped, or beyond the range of a float."""
    zero: ZeroSpread | None
    truncated: int
    parts: Mapping[str, list[float]] | None
    """Term to its part of each advantage; None: not known."""


@final
class Lengths:
    """Rewards by the length of the completion, in one unit."""

    def __init__(self) -> None:
        self.count = 0
        self.bins = Bins(0)
        self._sums = [0.0, 0.0, 0.0]

    def add(self, lengths: list[int | None], finals: list[float], truncated: list[bool]) -> None:
        """Add a group's candidates as far as their length is known."""
        known = [
            (float(length), reward, cut)
            for length, reward, cut in zip(lengths, finals, truncated, strict=True)
            if length is not None
        ]
        if not known:
            return
        self.count += len(known)
        for length, reward, cut in known:
            self.bins.add(length, reward, truncated=cut)
        try:
            own = deviations([length for length, _, _ in known])
            rewards = deviations([reward for _, reward, _ in known])
            products = [math.fsum(x * y for x, y in zip(a, b, strict=True)) for a, b in _pairs(own, rewards)]
        except (OverflowError, ValueError):
            products = [math.nan] * 3
        self._sums = [old + new for old, new in zip(self._sums, products, strict=True)]

    @property
    def correlation(self) -> float | None:
        """Pearson's correlation of length and final reward inside the groups, each about its group's mean."""
        both, lengths, rewards = self._sums
        value = both / math.sqrt(lengths * rewards) if lengths > 0 and rewards > 0 else math.nan
        return max(-1.0, min(1.0, value)) if math.isfinite(value) else None


def _pairs(own: list[float], rewards: list[float]) -> tuple[tuple[list[float], list[float]], ...]:
    return (own, rewards), (own, own), (rewards, rewards)


@final
class Collected:
    """The numbers of all groups.

    Args:
        weights: recorded or given weight of the terms; None: nobody knows, and 1 is tried.
    """

    def __init__(self, weights: Mapping[str, float] | None) -> None:
        self.weights = weights
        self.steps: dict[int, StepSums] = {}
        self.ranges = TermRanges()
        self.reward_shares = RewardShares()
        self.finals = Bins(_FINEST_REWARD)
        self.values: Counter[float] = Counter()
        """The final rewards themselves, as long as there are few different ones; empty when there are more."""
        self.tokens = Lengths()
        self.characters = Lengths()
        self.term_names: dict[str, None] = {}
        self.unexplained = 0
        """Scored groups whose final rewards are not the weighted sums of their terms."""
        self.has_texts = False

    def weights_of(self, terms: Columns) -> dict[str, float]:
        """The weight of each term, 1 where none is known."""
        weights = self.weights or {}
        return {term: weights.get(term, 1.0) for term in terms}

    def add(self, group: ScoredGroup) -> GroupNumbers:
        """Add a group; what was found out about it."""
        sums = self.steps.setdefault(group.step, StepSums())
        sums.groups += 1
        sums.candidates += len(group.candidates)
        truncated = [is_length_verdict(each.finish_reason) for each in group.candidates]
        sums.truncated += sum(truncated)
        sums.unknown += sum(each.finish_reason is None for each in group.candidates)
        self.has_texts = self.has_texts or any(each.completion is not None for each in group.candidates)
        if group.dropped_because is not None:
            sums.dropped[group.dropped_because] += 1
            return GroupNumbers(std=None, zero=None, truncated=sum(truncated), parts=None)
        return self._add_scored(group, sums, truncated)

    def _add_scored(self, group: ScoredGroup, sums: StepSums, truncated: list[bool]) -> GroupNumbers:
        terms, finals = group.terms, group.finals
        weights = self.weights_of(terms)
        self.term_names.update(dict.fromkeys(terms))
        self.ranges.add(terms, weights)
        self.reward_shares.add(terms, weights, finals)
        sums.add_finals(finals)
        for term, values in terms.items():
            found = sums.terms.setdefault(term, [0.0, 0])
            found[0] += sum(values)
            found[1] += len(values)
        self._add_values(finals)
        self.tokens.add([each.completion_token_count for each in group.candidates], finals, truncated)
        self.characters.add([_characters(each.completion) for each in group.candidates], finals, truncated)
        zero = zero_spread(terms, weights, finals)
        if zero is not None:
            sums.zero[zero] += 1
        std = _sample_std(finals)
        if std is not None:
            sums.spread_sum += std
            sums.spread_groups += 1
        parts = self._parts(group, sums, weights)
        return GroupNumbers(std=std, zero=zero, truncated=sum(truncated), parts=parts)

    def _add_values(self, finals: list[float]) -> None:
        if self.values or not self.finals.count:
            self.values.update(finals)
            if len(self.values) > _FEW:
                self.values.clear()
        for value in finals:
            self.finals.add(value, value)

    def _parts(self, group: ScoredGroup, sums: StepSums, weights: Mapping[str, float]) -> dict[str, list[float]] | None:
        terms, finals, advantages = group.terms, group.finals, group.advantages
        if not weights_explain(terms, weights, finals):
            self.unexplained += 1
            return None
        if advantages is None:
            return None
        parts = advantage_parts(terms, weights, finals, advantages)
        # Nothing to add up is found as well where the parts are beyond the range of a float.
        sums.shares.add(parts if parts is not None else {}, advantages if parts is not None else [math.nan])
        return parts


def _characters(completion: str | None) -> int | None:
    return None if completion is None else len(completion)


def _sample_std(finals: list[float]) -> float | None:
    if len(finals) == 1:
        return 0.0
    try:
        std = math.sqrt(math.fsum(each * each for each in deviations(finals)) / (len(finals) - 1))
    except OverflowError:
        return None
    return std if math.isfinite(std) else None
