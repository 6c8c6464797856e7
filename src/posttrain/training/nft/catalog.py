# SPDX-License-Identifier: Apache-2.0
"""The catalog of a run whose reward service is described in its config, under ``rl.nft.reward``.

A catalog is found again by its path in every process, and takes no argument. So the description travels in an
environment variable, which the entry sets from the config on each rank and every process that it starts inherits. What
is in it decides the score, and the provider's identity covers it; the token is not in it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, get_args

import msgspec

from posttrain.errors import RewardConfigError
from posttrain.rewards import RewardProviderSpec
from posttrain.runs.config import RLConfig
from posttrain.runs.config.nft import Media, NFTRewardConfig

__all__ = ["CATALOG", "VARIABLE", "catalog", "with_catalog"]

CATALOG: Final = "posttrain.training.nft.catalog:catalog"
"""Path of `catalog`."""
VARIABLE: Final = "POSTTRAIN_NFT_REWARD"
"""Holds ``{"media": ..., "reward": {...}}`` as JSON."""


def with_catalog(config: RLConfig) -> RLConfig:
    """The config with the catalog that it describes; one that names its own catalog comes back as it is.

    Sets `VARIABLE` for this process and those that it starts.

    Raises:
        RewardConfigError: it does both, or the description is not valid.
    """
    reward, media = config.nft.reward, config.nft.media
    if not reward.is_set:
        return config
    if config.reward_catalog not in (None, CATALOG):
        raise RewardConfigError(
            f"rl.reward_catalog={config.reward_catalog} and rl.nft.reward.enqueue_url are both set: leave one of them "
            "out, so that there is one description of the reward"
        )
    reward.media_config(media)
    os.environ[VARIABLE] = msgspec.json.encode({"media": media, "reward": reward.model_dump()}).decode()
    return config.model_copy(update={"reward_catalog": CATALOG, "reward_catalog_folder": None})


def catalog() -> Mapping[str, RewardProviderSpec]:
    """One provider, ``image`` or ``video``, with a term of the same name.

    Raises:
        RewardConfigError: no run has described its reward to this process.
    """
    from posttrain.media import ImageReward, ImageRewardConfig, VideoReward

    text = os.environ.get(VARIABLE)
    if text is None:
        raise RewardConfigError(
            "this catalog is made from rl.nft.reward by `posttrain nft`, which was not what started this process: "
            "check such a config with posttrain nft --config FILE --check"
        )
    try:
        described = msgspec.json.decode(text)
        media: Media = described["media"]
        # JSON has no tuples; the config checks the rest again.
        clip = described["reward"]["score_clip"]
        reward = NFTRewardConfig(**{**described["reward"], "score_clip": None if clip is None else tuple(clip)})
    except (msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        raise RewardConfigError(f"{VARIABLE} holds no description of a reward: {error}") from error
    if media not in get_args(Media):
        raise RewardConfigError(f"{VARIABLE} describes a reward of {media!r}, and there are {get_args(Media)}")
    made = reward.media_config(media)
    spec = ImageReward.spec(made) if isinstance(made, ImageRewardConfig) else VideoReward.spec(made)
    return {media: spec}
