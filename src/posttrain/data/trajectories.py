# SPDX-License-Identifier: Apache-2.0
"""From an observation and its completions to the records that the reward stage takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from posttrain.data.state import EnvState
from posttrain.errors import RewardContractError, describe, listing
from posttrain.schema import Observation, Trajectory

__all__ = ["PromptBatch", "group_trajectories"]


def group_trajectories(
    observation: Observation,
    completions: Sequence[str | None],
    *,
    policy_info: Sequence[Mapping[str, Any]] | None = None,
) -> list[Trajectory]:
    """The trajectories of one group, with the ids ``<group_id>/0``, ``<group_id>/1`` and so on.

    Args:
        observation: what the policy was shown; all trajectories share it.
        completions: [group_size] texts in rollout order; None: missing, which the stage will refuse.
        policy_info: [group_size] what the rollout recorded of each; copied.

    Raises:
        RewardContractError: `completions` is one text, or the two differ in length.
    """
    if fault := _group_fault(completions, policy_info, len(completions)):
        raise RewardContractError(fault, group_id=observation.id)
    return _group(observation, completions, policy_info)


def _group(
    observation: Observation, completions: Sequence[str | None], policy_info: Sequence[Mapping[str, Any]] | None
) -> list[Trajectory]:
    group_id = observation.id
    return [
        Trajectory(
            trajectory_id=f"{group_id}/{at}",
            group_id=group_id,
            obs=observation,
            completion=completion,
            policy_info=dict(policy_info[at]) if policy_info is not None else {},
        )
        for at, completion in enumerate(completions)
    ]


def _group_fault(
    completions: Sequence[str | None], policy_info: Sequence[Mapping[str, Any]] | None, size: int
) -> str | None:
    if isinstance(completions, str):
        return f"expected a list of completions, one a candidate, got {describe(completions)}"
    if len(completions) != size:
        return f"expected {size} completions, got {len(completions)}"
    if policy_info is not None and len(policy_info) != size:
        return f"expected {size} records in policy_info, one a completion, got {len(policy_info)}"
    return None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PromptBatch:
    """Prompts to roll out: each observation wants `group_size` completions."""

    observations: tuple[Observation, ...]
    """[groups], in the order in which they were drawn; each is a group of its own, also where rows repeat."""
    group_size: int
    """Completions to make for each."""
    start: EnvState
    """The place before the first of them."""
    end: EnvState
    """The place behind the last: what to save once the batch is done."""

    def trajectories(
        self,
        completions: Sequence[Sequence[str | None]],
        *,
        policy_info: Sequence[Sequence[Mapping[str, Any]]] | None = None,
    ) -> list[Trajectory]:
        """The trajectories of the whole batch, group after group.

        Args:
            completions: [groups][group_size] texts, in the order of `observations`.
            policy_info: [groups][group_size] what the rollout recorded of each; copied.

        Raises:
            RewardContractError: naming every group whose number of completions or records is not `group_size`.
        """
        groups = len(self.observations)
        for what, given in (("completions", completions), ("policy_info", policy_info)):
            if given is not None and len(given) != groups:
                raise RewardContractError(f"{what}: expected one list for each of {groups} groups, got {len(given)}")
        infos = policy_info if policy_info is not None else [None] * groups
        parts = list(zip(self.observations, completions, infos, strict=True))
        faults = [
            f"group {observation.id!r}: {fault}"
            for observation, texts, info in parts
            if (fault := _group_fault(texts, info, self.group_size)) is not None
        ]
        if faults:
            raise RewardContractError(f"the rollout does not fill its groups:\n{listing(faults)}")
        return [each for observation, texts, info in parts for each in _group(observation, texts, info)]
