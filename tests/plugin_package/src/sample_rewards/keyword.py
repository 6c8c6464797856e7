# SPDX-License-Identifier: Apache-2.0
"""`keyword`: whether the completion holds the keyword of the reference, in any case. A pointwise reward."""

from __future__ import annotations

from collections.abc import Mapping

from posttrain.rewards import (
    MetricContribution,
    RewardCandidate,
    RewardContext,
    RewardContractError,
    RewardProviderResult,
)

__all__ = ["score_candidate"]


def score_candidate(candidate: RewardCandidate, context: RewardContext) -> RewardProviderResult:
    """1.0 when ``reference["keyword"]`` stands in the completion, else 0.0; reports the mean number of words."""
    reference = context.reference
    keyword = reference.get("keyword") if isinstance(reference, Mapping) else None
    if not isinstance(keyword, str) or not keyword:
        raise RewardContractError('keyword expects a reference such as {"keyword": "blue"}')
    return RewardProviderResult(
        terms={"keyword": float(keyword.casefold() in candidate.completion.casefold())},
        diagnostics={"words": MetricContribution.mean(len(candidate.completion.split()))},
    )
