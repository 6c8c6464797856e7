# SPDX-License-Identifier: Apache-2.0
"""One candidate of a file, looked at closely: what each provider saw, and what it returned."""

from __future__ import annotations

import difflib
from typing import final

import msgspec

from posttrain.errors import RewardConfigError
from posttrain.rewards.contract.request import RewardCandidate, RewardContext
from posttrain.rewards.stage.bind import bind
from posttrain.rewards.stage.outcome import GroupOutcome
from posttrain.rewards.stage.stage import RewardStage
from posttrain.rollouts.source import RolloutSource

__all__ = ["Explanation", "explain"]


@final
class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate in its group."""

    candidate: RewardCandidate
    place: int
    """Its place in the group, counted from 0."""
    rows: tuple[int, int]
    """First and last row of its group in the file."""
    contexts: dict[str, RewardContext]
    """Provider to what it saw of the group's inputs."""
    group: GroupOutcome
    """The whole group's scores. Advantages over a batch take the group as the batch."""


def explain(stage: RewardStage, source: RolloutSource, trajectory_id: str) -> Explanation:
    """Find the candidate, score its group, and tell.

    Raises:
        RewardConfigError: the file has no such candidate; the nearest id is named.
        RewardContractError: rows before it are at fault, or its group can't be scored.
        RewardUnavailableError: an outside service could not answer.
    """
    near: list[str] = []
    for group in source.groups():
        ids = [each.trajectory_id for each in group.trajectories]
        if trajectory_id not in ids:
            near = difflib.get_close_matches(trajectory_id, [*near, *ids], n=1)
            continue
        place = ids.index(trajectory_id)
        (bound,) = bind(group.trajectories, stage.selection, stage.group_size)
        outcome = stage.annotate(stage.evaluate(group.trajectories))
        return Explanation(
            candidate=bound.requests[0].candidates[place],
            place=place,
            rows=(group.first_row, group.last_row),
            contexts={
                name: request.context for name, request in zip(stage.selection.names, bound.requests, strict=True)
            },
            group=outcome.groups[0],
        )
    guess = f"; did you mean {near[0]!r}?" if near else ""
    raise RewardConfigError(f"{source.path} has no candidate {trajectory_id!r}{guess}")
