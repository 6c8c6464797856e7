# SPDX-License-Identifier: Apache-2.0
"""Catalog of the control runs of nft_results.py: a reward that is always the same, and beside it what is measured.

`NFT_SERVICE` holds the address of the reference service, started with ``--image-scorer always_image=nft_control:always
--video-scorer always_video=nft_control:always``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from posttrain.media import ImageReward, ImageRewardConfig, VideoReward, VideoRewardConfig
from posttrain.rewards import RewardProviderSpec

__all__ = ["always", "images", "videos"]


def always(array: Any, info: Mapping[str, Any]) -> float:
    """The scorer of the control: one half, whatever is seen."""
    del array, info
    return 0.5


def images() -> Mapping[str, RewardProviderSpec]:
    """``always``, and ``brightness`` to be watched."""
    return {
        name: ImageReward.spec(ImageRewardConfig(**_described(name, "image")), term=name)
        for name in ("always", "brightness")
    }


def videos() -> Mapping[str, RewardProviderSpec]:
    """``always``, and ``temporal_smoothness`` to be watched."""
    return {
        name: VideoReward.spec(VideoRewardConfig(**_described(name, "video"), fps=16), term=name)
        for name in ("always", "temporal_smoothness")
    }


def _described(name: str, media: str) -> dict[str, Any]:
    service = os.environ["NFT_SERVICE"]
    if name == "always":
        name = f"always_{media}"
    return {
        "provider_revision": "control-1",
        "enqueue_url": f"{service}/api/reward/enqueue",
        "pull_url": f"{service}/api/reward/pull",
        "reward": name,
        "score_key": name,
        "credential": None,
        "poll_interval_s": 0.02,
        "evaluation_timeout_s": 120.0,
    }
