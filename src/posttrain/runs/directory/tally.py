# SPDX-License-Identifier: Apache-2.0
"""Counts and means over recorded candidates: what was not scored is counted as such, and is in no mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, final

import msgspec

from posttrain.rewards.metrics.moments import Moments
from posttrain.runs.records import RecordedCandidate

__all__ = ["ScoreTally", "tally"]

_STRETCH: Final = 4096


@final
class ScoreTally(msgspec.Struct, frozen=True, kw_only=True):
    """What a number of recorded candidates come to."""

    scored: int
    """Candidates that have a reward."""
    not_scored: dict[str, int]
    """Candidates of dropped groups, by cause."""
    rewards: dict[str, Moments]
    """Each term, and ``final``, over the scored candidates that have it: count, mean, spread, range."""


def tally(candidates: Iterable[RecordedCandidate]) -> ScoreTally:
    """Count them, in flat memory; exact, so that the order does not matter."""
    scored = 0
    not_scored: Counter[str] = Counter()
    waiting: dict[str, list[float]] = {}
    rewards: dict[str, Moments] = {}
    for row in candidates:
        if row.dropped_because is not None:
            not_scored[row.dropped_because] += 1
            continue
        scored += 1
        for name, value in row.reward.items():
            values = waiting.setdefault(name, [])
            values.append(value)
            if len(values) >= _STRETCH:
                rewards[name] = rewards.get(name, Moments()).merge(Moments.of(values))
                values.clear()
    for name, values in waiting.items():
        rewards[name] = rewards.get(name, Moments()).merge(Moments.of(values))
    return ScoreTally(scored=scored, not_scored=dict(not_scored), rewards=rewards)
