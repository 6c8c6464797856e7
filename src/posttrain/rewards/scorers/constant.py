# SPDX-License-Identifier: Apache-2.0
"""`constant`: 1.0 for every candidate. For dry runs, and as a term whose weight shifts a combined reward."""

from __future__ import annotations

from functools import partial
from typing import Final

from posttrain.rewards.contract.pointwise import map_candidates
from posttrain.rewards.contract.request import RewardCandidate, RewardContext
from posttrain.rewards.contract.result import RewardProviderResult
from posttrain.rewards.contract.spec import ProviderExecution, RewardProviderSpec

__all__ = ["SPEC", "score_candidate"]


def score_candidate(candidate: RewardCandidate, context: RewardContext) -> RewardProviderResult:
    """1.0, whatever the candidate says; no input is read."""
    del candidate, context
    return RewardProviderResult(terms={"constant": 1.0})


SPEC: Final = RewardProviderSpec(
    factory=partial(map_candidates, score_candidate),
    revision="1",
    terms=("constant",),
    execution=ProviderExecution(repeatable=True),
)
