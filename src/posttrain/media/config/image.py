# SPDX-License-Identifier: Apache-2.0
"""`ImageRewardConfig`: the value contract of the decoded-image reward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from posttrain.media.config.service import ServiceConfig
from posttrain.media.sample import MediaType

__all__ = ["ImageRewardConfig"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRewardConfig(ServiceConfig):
    """How a decoded image is scored by the reward service: the fields are those of `ServiceConfig`.

    The pixels become uint8 by the exact fp32 transform: (x + 1) * 127.5, round half to even. A pixel outside of
    [-1, 1] is refused, however little.

    Example:
        ::

            ImageRewardConfig(
                provider_revision="sha256:4f1c...",
                enqueue_url="https://rewards.example.com/api/reward/enqueue",
                pull_url="https://rewards.example.com/api/reward/pull",
                reward="ocr",
                score_key="ocr_reward",
                send_prompts=True,
            )

    Raises:
        RewardConfigError: naming every field that is not valid.
    """

    media_type: ClassVar[MediaType] = "image"

    max_sample_bytes: int = 1 << 26
    """See `ServiceConfig`; by default 64 MiB, an image of 4096 by 5461."""
