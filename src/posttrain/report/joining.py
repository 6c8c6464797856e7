# SPDX-License-Identifier: Apache-2.0
"""The texts of a scored file, which lie in its rollouts: joined by trajectory id, never by position."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import msgspec

from posttrain.errors import RewardContractError, listing
from posttrain.report.group import ScoredGroup
from posttrain.rollouts.source import RolloutSource
from posttrain.runs.records import RecordedCandidate
from posttrain.schema import Trajectory

__all__ = ["texts_of", "with_texts"]

_Waiting: TypeAlias = dict[str, Trajectory]


def with_texts(groups: Iterator[ScoredGroup], rollouts: RolloutSource) -> Iterator[ScoredGroup]:
    """The same groups with prompt, reference, completion and verdict of each candidate.

    Where both files have one order, one group is held. Otherwise, what was read ahead of its group is held until that
    comes. Rollouts that are in no group are passed over.

    Raises:
        RewardConfigError: the rollouts can't be read.
        RewardContractError: rows of the rollouts are at fault, or candidates are not in them, all of one group named.
    """
    source = rollouts.groups()
    waiting: _Waiting = {}
    for group in groups:
        wanted = {each.trajectory_id for each in group.candidates}
        while not wanted <= waiting.keys():
            found = next(source, None)
            if found is None:
                missing = [each.trajectory_id for each in group.candidates if each.trajectory_id not in waiting]
                raise _not_there(rollouts, missing, group.group_id)
            waiting.update((each.trajectory_id, each) for each in found.trajectories)
        candidates = [_joined(each, waiting.pop(each.trajectory_id)) for each in group.candidates]
        yield ScoredGroup(step=group.step, group_id=group.group_id, candidates=tuple(candidates))


def texts_of(trajectory_ids: Iterable[str], rollouts: RolloutSource) -> dict[str, RecordedCandidate]:
    """What the rollouts hold of these candidates, without any score; the file is read once.

    Raises:
        RewardConfigError: the rollouts can't be read.
        RewardContractError: rows of the rollouts are at fault, or candidates are not in them, all of them named.
    """
    wanted = dict.fromkeys(trajectory_ids)
    found = {}
    for group in rollouts.groups():
        for each in group.trajectories:
            if each.trajectory_id in wanted:
                bare = RecordedCandidate(
                    trajectory_id=each.trajectory_id, group_id=each.group_id, reward={}, advantage=None
                )
                found[each.trajectory_id] = _joined(bare, each)
    if missing := [each for each in wanted if each not in found]:
        raise _not_there(rollouts, missing)
    return found


def _joined(scored: RecordedCandidate, rollout: Trajectory) -> RecordedCandidate:
    info: dict[str, Any] = rollout.policy_info
    return msgspec.structs.replace(
        scored,
        row_id=scored.row_id if scored.row_id is not None else rollout.obs.row_id,
        prompt=rollout.obs.prompt,
        reference=rollout.obs.reference,
        completion=rollout.completion,
        finish_reason=info.get("finish_reason"),
        completion_token_count=info.get("completion_token_count"),
    )


def _not_there(rollouts: RolloutSource, missing: list[str], group_id: str | None = None) -> RewardContractError:
    return RewardContractError(
        f"{rollouts.path.name} does not hold these candidates:\n{listing(missing)}\n"
        "Give the rollouts that were scored, with the columns and the grouping of that time.",
        group_id=group_id,
    )
