# SPDX-License-Identifier: Apache-2.0
"""`brevity`: how many of its rivals a completion is shorter than. A comparative reward: it needs the whole group."""

from __future__ import annotations

from posttrain.rewards import (
    MetricContribution,
    RewardCandidateResult,
    RewardGroupRequest,
    RewardGroupResult,
    RewardProviderResult,
)

__all__ = ["Brevity"]


class Brevity:
    """Pays the share of the other candidates that are longer, an equally long one counting half; alone: 0.5."""

    def evaluate(self, request: RewardGroupRequest) -> RewardGroupResult:
        """Compare every candidate with every other."""
        lengths = [len(each.completion) for each in request.candidates]
        items = []
        for candidate, length in zip(request.candidates, lengths, strict=True):
            longer = sum(other > length for other in lengths)
            equal = lengths.count(length) - 1
            rivals = len(lengths) - 1
            result = RewardProviderResult(
                terms={"brevity": (longer + equal / 2) / rivals if rivals else 0.5},
                diagnostics={"ties": MetricContribution.total(equal)},
            )
            items.append(RewardCandidateResult(candidate.trajectory_id, result))
        return RewardGroupResult(request.group_id, tuple(items))
