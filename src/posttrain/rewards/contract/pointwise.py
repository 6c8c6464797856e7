# SPDX-License-Identifier: Apache-2.0
"""Lift a function that scores one candidate to the group contract."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError
from typing import TypeAlias, final

from posttrain.errors import RewardContractError, RewardError, describe, listing
from posttrain.rewards.contract.failure import classified
from posttrain.rewards.contract.provider import CandidateScorer, RewardProvider
from posttrain.rewards.contract.request import RewardCandidate, RewardGroupRequest
from posttrain.rewards.contract.result import RewardCandidateResult, RewardGroupResult

__all__ = ["map_candidates", "watch_candidates"]

Watch: TypeAlias = Callable[[tuple[RewardCandidate, ...]], Iterable[RewardCandidate]]

_watch: Watch | None = None


def watch_candidates(watch: Watch | None) -> None:
    """Let `watch` pass the candidates of each mapped group on, one by one and unchanged: it sees which one is next.

    For a worker process, which has to leave word where it is before a scorer that never returns.
    """
    global _watch  # noqa: PLW0603  # one worker a process, and nothing to pay for it elsewhere
    _watch = watch


def map_candidates(scorer: CandidateScorer) -> RewardProvider:
    """A provider that calls ``scorer(candidate, context)`` for each candidate, in order.

    When the scorer raises, the error names the candidate; the others are still tried, so that one error names every
    candidate that fails. `RewardUnavailableError` and `RewardConfigError` end the group at once: asking a dead or a
    wrongly set up service again is no help.

    Example:
        As a spec's factory: ``functools.partial(map_candidates, score_candidate)``.
    """
    if not callable(scorer):
        raise RewardContractError(f"map_candidates takes a function (candidate, context), got {describe(scorer)}")
    return _MappedCandidates(scorer)


@final
class _MappedCandidates:
    """See `map_candidates`."""

    __slots__ = ("_scorer",)

    def __init__(self, scorer: CandidateScorer) -> None:
        self._scorer = scorer

    def __repr__(self) -> str:
        return f"map_candidates({getattr(self._scorer, '__qualname__', self._scorer)})"

    def evaluate(self, request: RewardGroupRequest) -> RewardGroupResult:
        scorer, context = self._scorer, request.context
        items: list[RewardCandidateResult] = []
        failures: list[RewardError] = []
        for candidate in request.candidates if _watch is None else _watch(request.candidates):
            trajectory_id = candidate.trajectory_id
            try:
                items.append(RewardCandidateResult(trajectory_id, scorer(candidate, context)))
            except CancelledError:
                raise
            except Exception as error:
                failure = classified(error, trajectory_id=trajectory_id)
                if isinstance(failure, RewardContractError):
                    failures.append(failure)
                    if failure is not error:
                        failure.__cause__ = error
                    continue
                if failure is error:
                    raise
                raise failure from error
        if failures:
            raise _together(failures, len(request.candidates))
        return RewardGroupResult(request.group_id, tuple(items))


def _together(failures: list[RewardError], asked: int) -> RewardError:
    if len(failures) == 1:
        return failures[0]
    lines = [f"{failure.trajectory_id}: {failure.message.partition(chr(10))[0]}" for failure in failures]
    error = RewardContractError(f"{len(failures)} of {asked} candidates failed:\n{listing(lines)}")
    error.because_of(failures[0].__cause__ or failures[0])
    error.__cause__ = failures[0].__cause__ or failures[0]
    return error
