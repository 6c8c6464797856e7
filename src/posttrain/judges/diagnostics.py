# SPDX-License-Identifier: Apache-2.0
"""What judging a group took, and how steady the judge was: reporting only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from math import fsum
from typing import Any, Final

from posttrain.judges.endpoint import JudgeAnswer
from posttrain.rewards.metrics.contribution import MetricContribution

__all__ = ["AGREEMENT", "COMMON", "COST", "agreement", "group_diagnostics", "mean_of"]

COMMON: Final = (
    "calls",
    "retries",
    "parse_failures",
    "cached",
    "prompt_tokens",
    "completion_tokens",
    "latency_mean",
    "latency_max",
    "truncated_candidates",
)
"""Diagnostics of every judge. Totals, but for the latencies: seconds of an answer that was not recorded. Tokens are
those that the endpoint counted; a reply that does not say adds nothing."""
COST: Final = "cost"
"""Total in the currency of the prices; declared when the config has prices."""
AGREEMENT: Final = "sample_agreement"
"""Declared when the config has more than one sample; see `agreement`."""


def group_diagnostics(
    answers: Sequence[JudgeAnswer[Any]], truncated: int, *, priced: bool
) -> dict[str, MetricContribution]:
    """Those of one group: `COMMON`, and `COST` if `priced`."""
    total = MetricContribution.total
    made = {
        "calls": total(sum(each.calls for each in answers)),
        "retries": total(sum(each.retries for each in answers)),
        "parse_failures": total(sum(each.parse_failures for each in answers)),
        "cached": total(sum(each.cached for each in answers)),
        "prompt_tokens": total(sum(each.prompt_tokens or 0 for each in answers)),
        "completion_tokens": total(sum(each.completion_tokens or 0 for each in answers)),
        "truncated_candidates": total(truncated),
    }
    waited = [each.seconds for each in answers if not each.cached]
    if waited:
        made["latency_mean"] = MetricContribution.mean(fsum(waited) / len(waited), len(waited))
        made["latency_max"] = MetricContribution.maximum(max(waited))
    if priced:
        made[COST] = total(fsum(each.cost or 0.0 for each in answers))
    return made


def agreement(samples: Sequence[float], width: float) -> float:
    """How much repeated answers to one question agree: in [0, 1], 1 when all are the same.

    One minus the mean distance of two different samples, over the width of the scale. There are at least two samples.
    """
    pairs = list(combinations(samples, 2))
    return 1.0 - fsum(abs(one - other) for one, other in pairs) / len(pairs) / width


def mean_of(values: Iterable[float]) -> MetricContribution | None:
    """The mean of some values, weighted by their number; None of none."""
    listed = list(values)
    return MetricContribution.mean(fsum(listed) / len(listed), len(listed)) if listed else None
