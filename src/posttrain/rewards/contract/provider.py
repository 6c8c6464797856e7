# SPDX-License-Identifier: Apache-2.0
"""The two seams of a reward author: score a group, or score one candidate and be lifted to the group.

A provider may offer more: a life, a look at the machine, a trial call, a word on what it asks of services.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from posttrain.rewards.contract.request import RewardCandidate, RewardContext, RewardGroupRequest
from posttrain.rewards.contract.result import RewardGroupResult, RewardProviderResult

__all__ = [
    "CandidateScorer",
    "CheckedRewardProvider",
    "ManagedRewardProvider",
    "ProbedRewardProvider",
    "RemoteRewardProvider",
    "RewardProvider",
]

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


@runtime_checkable
class CheckedRewardProvider(RewardProvider, Protocol):
    """A provider that can tell whether this machine has what it needs."""

    def check_machine(self) -> None:
        """Raise `RewardConfigError` naming everything that this machine lacks: a program, a variable, a folder, space.

        Called before `open`, by preflight and by each process or actor that will evaluate. No network call; what it
        makes, it removes.
        """
        ...


@runtime_checkable
class ProbedRewardProvider(RewardProvider, Protocol):
    """A provider that can make one real call for the sake of trying."""

    def probe(self) -> str:
        """Make one real call and say in one line what came back. Called after `open`, by ``preflight --probe`` only."""
        ...


@runtime_checkable
class RemoteRewardProvider(RewardProvider, Protocol):
    """A provider that calls services, and can tell what it will ask of them."""

    def calls_at_once(self) -> Mapping[str, int]:
        """Address of a service to the calls that one process may have in flight there. Preflight shows the product."""
        ...

    def cautions(self) -> Sequence[str]:
        """What a person should know before the run, one line each, for example a floating model alias."""
        ...
