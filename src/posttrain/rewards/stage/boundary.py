# SPDX-License-Identifier: Apache-2.0
"""The one boundary around an author's code: a group goes in, checked scores come out, or an error that names who."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import CancelledError
from time import perf_counter
from typing import Any, final

import msgspec

from posttrain.rewards.contract.check import check_result
from posttrain.rewards.contract.failure import classified
from posttrain.rewards.contract.request import RewardGroupRequest
from posttrain.rewards.metrics.contribution import MetricContribution
from posttrain.rewards.stage.prepare import PreparedProvider

__all__ = ["GroupScores", "evaluate_group"]


@final
class GroupScores(msgspec.Struct, frozen=True):
    """What one provider said of one group, checked: plain floats in the order of the request. It may have travelled."""

    provider: str
    group_id: str
    trajectory_ids: tuple[str, ...]
    """[group_size], in the order of the request."""
    terms: Mapping[str, tuple[float, ...]]
    """Term to its values, [group_size] each; finite."""
    diagnostics: Mapping[str, MetricContribution] = {}
    """Merged over the group."""
    seconds: float = 0.0
    """Wall time of `evaluate`."""


def evaluate_group(prepared: PreparedProvider, request: RewardGroupRequest[Any]) -> GroupScores:
    """Call the provider on one group and check what it returns.

    Raises:
        RewardContractError: the provider raised, or its result breaks the contract.
        RewardUnavailableError: the provider said that an outside service or a worker could not answer.
        RewardConfigError: the provider said that only a person can mend it, for example a refused credential.

    Each carries the provider, the group, the trajectory where one candidate is to blame, and the frozen request.
    KeyboardInterrupt, SystemExit and cancellation pass through untouched.
    """
    trajectory_ids = [candidate.trajectory_id for candidate in request.candidates]
    started = perf_counter()
    try:
        result = prepared.provider.evaluate(request)
        elapsed = perf_counter() - started
        terms, diagnostics = check_result(prepared.spec, request, result, trajectory_ids)
    except CancelledError:
        raise
    except Exception as error:
        failure = classified(error, provider=prepared.name, group_id=request.group_id)
        # A latent is neither recorded nor sent away, and an error that held it would do both.
        failure.request = None if prepared.spec.execution.rank_local else request
        if failure is error:
            raise
        raise failure from error
    return GroupScores(
        prepared.name,
        request.group_id,
        tuple(trajectory_ids),
        terms,
        diagnostics,
        elapsed,
    )
