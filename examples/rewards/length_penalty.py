# SPDX-License-Identifier: Apache-2.0
"""A right answer pays; a long completion costs. Two terms, so that the report shows both.

    posttrain score examples/rollouts/word_problems.jsonl --group-size 8 \
        --catalog examples/rewards/length_penalty.py:catalog --reward gsm8k --reward brevity --weight overlong=-0.5

Run it in the root of the repository.
"""

from __future__ import annotations

from functools import partial

from posttrain.rewards import (
    MetricContribution,
    RewardCandidate,
    RewardContext,
    RewardContractError,
    RewardProviderResult,
    RewardProviderSpec,
    map_candidates,
)

SOFT_TOKENS = 24
"""Up to here a completion costs nothing."""
HARD_TOKENS = 48
"""From here on it costs the whole penalty; in between the cost grows evenly."""


def score_candidate(candidate: RewardCandidate, context: RewardContext) -> RewardProviderResult:
    """``overlong`` from 0.0 to 1.0 by the rollout's own token count; a weight below zero makes it a penalty.

    A completion that the engine cut at its budget is counted apart: its length says nothing about the policy's choice.
    """
    del context
    tokens = candidate.completion_token_count
    if tokens is None:
        raise RewardContractError("the rollout has to record completion_token_count for a length penalty")
    overlong = min(1.0, max(0.0, (tokens - SOFT_TOKENS) / (HARD_TOKENS - SOFT_TOKENS)))
    return RewardProviderResult(
        terms={"overlong": overlong},
        diagnostics={
            "tokens": MetricContribution.mean(tokens),
            "longest": MetricContribution.maximum(tokens),
            "cut": MetricContribution.total(float(candidate.is_length_truncated)),
        },
    )


def catalog() -> dict[str, RewardProviderSpec]:
    """The penalty, to be selected beside a provider that judges the answer."""
    return {
        "brevity": RewardProviderSpec(
            factory=partial(map_candidates, score_candidate),
            revision="1",
            terms=("overlong",),
            diagnostics=("tokens", "longest", "cut"),
            semantic_identity={"soft_tokens": SOFT_TOKENS, "hard_tokens": HARD_TOKENS},
        )
    }
