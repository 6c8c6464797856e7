# SPDX-License-Identifier: Apache-2.0
"""What a DiffusionNFT run asks of its config beyond what each key says for itself, and of the number of ranks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

import msgspec

from posttrain.errors import RewardConfigError, listing
from posttrain.runs.config import RLConfig

__all__ = ["ESTIMATOR", "Layout", "check_config", "layout_of"]

ESTIMATOR: Final = "group_mean_batch_std"
"""The estimator that the paper's r is defined with."""


def check_config(config: RLConfig) -> None:
    """Refuse what such a run can't honour, all at once.

    Raises:
        RewardConfigError: naming every key with what it should be.
    """
    if faults := list(_faults(config)):
        raise RewardConfigError(f"posttrain nft can't run this config:\n{listing(faults)}")


def _faults(config: RLConfig) -> Iterator[str]:
    nft, policy = config.nft, config.policy
    if config.group_size < 2:
        yield "rl.group_size: expected at least 2: in a group of one every advantage is 0"
    if config.reward_stage.estimator != ESTIMATOR:
        yield (
            f"rl.reward_stage.estimator: expected {ESTIMATOR}, which r is defined with, got "
            f"{config.reward_stage.estimator}"
        )
    if config.reward_stage.backend != "in_process":
        yield (
            f"rl.reward_stage.backend: expected in_process, got {config.reward_stage.backend}: a latent is scored on "
            "the rank that made it"
        )
    if config.mask_truncated:
        yield "rl.mask_truncated: no engine cuts a latent at a budget; leave it out"
    if config.validation.enabled:
        yield "rl.validation.enabled: held-out validation is for completions; leave it out"
    if config.data.path is None:
        yield "rl.data.path: missing; it names the prompts, for example recipes/nft_prompts.jsonl"
    if policy.model is None:
        yield "rl.policy.model: missing; tiny, or a folder or a name on the hub in the layout of diffusers"
    elif policy.model.startswith("gguf:"):
        yield "rl.policy.model: a diffusion model is no GGUF file; tiny, or a folder in the layout of diffusers"
    if policy.warm_start_steps:
        yield "rl.policy.warm_start_steps: a diffusion model has no warm start here; leave it out"
    if nft.reward.is_set and config.reward != (nft.media,):
        yield f"rl.reward: rl.nft.reward describes one provider, {nft.media!r}; write rl.reward={nft.media}"
    if nft.reward.is_set and nft.ranks_timeout_s <= nft.reward.evaluation_timeout_s:
        yield (
            f"rl.nft.ranks_timeout_s: expected more than rl.nft.reward.evaluation_timeout_s "
            f"({nft.reward.evaluation_timeout_s:g} s), got {nft.ranks_timeout_s:g}: a slow service would pass for a "
            "rank that hangs"
        )


@final
class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """Which rank makes which sample of a batch. Each rank has one sample of a group, `rounds` times."""

    rank: int
    world_size: int
    group_size: int
    rounds: int

    @property
    def groups(self) -> int:
        """Groups of a batch."""
        return self.rounds * self.world_size // self.group_size

    @property
    def member(self) -> int:
        """Which candidate of its groups the rank has, from 0."""
        return self.rank % self.group_size

    @property
    def own_groups(self) -> list[int]:
        """The groups that the rank has a candidate of, one a round."""
        each = self.world_size // self.group_size
        return [number * each + self.rank // self.group_size for number in range(self.rounds)]


def layout_of(config: RLConfig, *, rank: int, world_size: int) -> Layout:
    """The layout of a run.

    Raises:
        RewardConfigError: the ranks do not make whole groups.
    """
    size = config.group_size
    if world_size % size:
        below, above = world_size - world_size % size, world_size + size - world_size % size
        fitting = f"{above}" if not below else f"{below} or {above}"
        raise RewardConfigError(
            f"each rank has one candidate of a group, so the number of ranks has to be a multiple of rl.group_size "
            f"({size}), got {world_size}: start {fitting} ranks, or set rl.group_size"
        )
    return Layout(rank=rank, world_size=world_size, group_size=size, rounds=config.nft.rounds)
