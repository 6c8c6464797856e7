# SPDX-License-Identifier: Apache-2.0
"""The two seams of a reward author: score a group, or score one candidate and be lifted to the group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias, runtime_checkable

from posttrain.rewards.contract.request import RewardCandidate, RewardContext, RewardGroupRequest
from posttrain.rewards.contract.result import RewardGroupResult, RewardProviderResult

__all__ = ["CandidateScorer", "ManagedRewardProvider", "RewardProvider"]

CandidateScorer: TypeAlias = Callable[[RewardCandidate, RewardContext], RewardProviderResult]


@runtime_checkable
class RewardProvider(Protocol):
    """Scores one complete group of candidates.

    Example:
        A provider that pays every completion that says something::

            class Visible:
                def evaluate(self, request: RewardGroupRequest) -> RewardGroupResult:
                    return RewardGroupResult(
                        group_id=request.group_id,
                        items=tuple(
                            RewardCandidateResult(
                                trajectory_id=candidate.trajectory_id,
                                result=RewardProviderResult(terms={"task": float(bool(candidate.completion.strip()))}),
                            )
                            for candidate in request.candidates
                        ),
                    )
    """

    def evaluate(self, request: RewardGroupRequest) -> RewardGroupResult:
        """One result per candidate, in the request's order.

        A synchronous barrier: it may be concurrent inside, and returns when the whole group is scored. Raise
        `RewardUnavailableError` when an outside service could not answer, anything else when the group is at fault.
        """
        ...


@runtime_checkable
class ManagedRewardProvider(RewardProvider, Protocol):
    """A provider with a life: a client, a pool, a file. Opened and closed once per process around it."""

    def open(self) -> None:
        """Get ready; network calls and heavy set-up belong here, not in the factory."""
        ...

    def close(self) -> None:
        """Let go of everything that `open` took."""
        ...
