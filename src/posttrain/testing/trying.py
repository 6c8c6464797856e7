# SPDX-License-Identifier: Apache-2.0
"""Try a scorer in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from posttrain.errors import RewardContractError, describe
from posttrain.frozen import Json, freeze
from posttrain.rewards import (
    CandidateScorer,
    RewardCandidate,
    RewardContext,
    RewardGroupRequest,
    RewardProviderResult,
    RewardProviderSpec,
    map_candidates,
)
from posttrain.rewards.contract.check import check_result

__all__ = ["try_scorer"]


def try_scorer(
    scorer: CandidateScorer,
    completions: Sequence[str],
    *,
    reference: Json = None,
    prompt: Json = None,
    finish_reason: str | None = "stop",
) -> list[dict[str, float]]:
    """Score completions as one group, with the stage's own freezing and checks.

    Args:
        scorer: a function (candidate, context) as `map_candidates` takes it.
        completions: one candidate each, with the trajectory ids ``0``, ``1`` and so on.
        reference: frozen for the scorer, as a row's reference is.
        prompt: the same for the prompt.
        finish_reason: the verdict of every candidate; ``"length"``: cut at the token budget; None: not recorded.

    Returns:
        The terms of each completion, in order, as plain floats.

    Raises:
        RewardContractError: what the stage would refuse: an exception of the scorer, None, NaN, a bool, terms that are
            not the same for each candidate, completions that are no texts.
        RewardConfigError: the scorer's terms have names that no spec could declare.

    Example:
        ::

            assert try_scorer(score_candidate, ["Paris", "Rome"], reference="Paris") == [{"task": 1.0}, {"task": 0.0}]
    """
    is_list = isinstance(completions, Sequence) and not isinstance(completions, str)
    if not is_list or not all(isinstance(each, str) for each in completions):
        raise RewardContractError(f"completions: expected a list of texts, got {describe(completions)}")
    candidates = tuple(
        RewardCandidate(str(index), completion, None, finish_reason) for index, completion in enumerate(completions)
    )
    context = RewardContext(freeze(prompt, "prompt"), freeze(reference, "reference"))
    request = RewardGroupRequest("try", candidates, context)
    provider = map_candidates(scorer)
    result = provider.evaluate(request)
    results = [item.result for item in result.items if isinstance(item.result, RewardProviderResult)]
    spec = RewardProviderSpec(
        factory=lambda: provider,
        revision="tried",
        terms=next((names for each in results if (names := _names(each.terms))), ["score"]),
        diagnostics=list(dict.fromkeys(name for each in results for name in _names(each.diagnostics))),
    )
    columns, _ = check_result(spec, request, result)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _names(scores: object) -> list[str]:
    """What a scorer named; nothing where it returned no mapping, which the check then refuses."""
    return list(scores) if isinstance(scores, Mapping) else []
