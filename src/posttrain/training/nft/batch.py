# SPDX-License-Identifier: Apache-2.0
"""One batch of a rank: which prompts it has, and the samples that it makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, final

import msgspec

from posttrain.errors import RewardContractError, describe
from posttrain.rewards import RewardOutcome
from posttrain.schema import Observation, Trajectory
from posttrain.training.nft.loss import optimality
from posttrain.training.nft.policy import DiffusionPolicy, Sample, generator_of
from posttrain.training.nft.settings import Layout

if TYPE_CHECKING:
    import torch

__all__ = ["Rollouts", "makers", "optimality_of", "recorded", "roll_out", "samples_of"]


@final
class Rollouts(msgspec.Struct, frozen=True, kw_only=True):
    """A rank's own trajectories, each with its final latent, and the embeddings of their prompts."""

    trajectories: tuple[Trajectory, ...]
    """[rounds]."""
    texts: tuple[torch.Tensor, ...]
    """[rounds], [1, L, D] each."""


def roll_out(policy: DiffusionPolicy, layout: Layout, observations: Sequence[Observation], step: int) -> Rollouts:
    """Sample this rank's candidate of each of its groups.

    Args:
        policy: its old weights are sampled.
        layout: which groups and which candidate of them.
        observations: of all groups of the batch, the same on every rank.
        step: number of the batch, from 1.

    Raises:
        RewardContractError: a prompt is no text.
    """
    trajectories, texts = [], []
    for number in layout.own_groups:
        observation = observations[number]
        text = policy.model.encode(_prompt(observation)).to(policy.model.device)
        trajectory_id = _name(observation, layout.member)
        generator = generator_of("sample", policy.settings.seed, step, trajectory_id)
        trajectories.append(
            Trajectory(
                trajectory_id=trajectory_id,
                group_id=observation.id,
                obs=observation,
                latent=policy.sample(text, generator),
                policy_info={"policy_version": step - 1},
            )
        )
        texts.append(text)
    return Rollouts(trajectories=tuple(trajectories), texts=tuple(texts))


def makers(layout: Layout, observations: Sequence[Observation]) -> dict[str, int]:
    """Every trajectory of the batch to the rank that makes it."""
    at_once = layout.world_size // layout.group_size
    return {
        _name(observation, member): number % at_once * layout.group_size + member
        for number, observation in enumerate(observations)
        for member in range(layout.group_size)
    }


def optimality_of(outcome: RewardOutcome, clip: float) -> dict[str, float]:
    """Trajectory to r, over the whole batch; a dropped group has none."""
    found: dict[str, float] = {}
    for group in outcome.groups:
        if group.dropped_because is None:
            found |= dict(zip(group.trajectory_ids, optimality(group.advantages, clip), strict=True))
    return found


def samples_of(rollouts: Rollouts, r: Mapping[str, float]) -> list[Sample]:
    """What the loss is taken of: those of dropped groups are left out, since nothing is known of them."""
    return [
        Sample(trajectory_id=each.trajectory_id, latent=each.latent, text=text, r=r[each.trajectory_id])
        for each, text in zip(rollouts.trajectories, rollouts.texts, strict=True)
        if each.trajectory_id in r
    ]


def recorded(batch: Sequence[Trajectory], observations: Sequence[Observation]) -> list[Trajectory]:
    """The whole batch as it is recorded: with every prompt, which other ranks' copies lack, and without latents."""
    by_id = {each.id: each for each in observations}
    return [replace(each, obs=by_id[each.group_id], latent=None) for each in batch]


def _name(observation: Observation, member: int) -> str:
    return f"{observation.id}/{member}"


def _prompt(observation: Observation) -> str:
    if type(observation.prompt) is str:
        return observation.prompt
    raise RewardContractError(
        f"row {observation.row_id!r}: a diffusion model is prompted with text, got {describe(observation.prompt)}: map "
        "rl.data.prompt_column to a column of texts",
        group_id=observation.id,
    )
