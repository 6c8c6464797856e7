# SPDX-License-Identifier: Apache-2.0
"""`VideoRewardConfig`: the value contract of the decoded-video reward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from posttrain.media.config.check import number_faults
from posttrain.media.config.service import ServiceConfig
from posttrain.media.sample import MediaType

__all__ = ["VideoRewardConfig"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class VideoRewardConfig(ServiceConfig):
    """How a decoded video is scored by the reward service. See `ServiceConfig` for the fields that images share.

    The pixels become uint8 by the exact fp32 transform: clamp to [-1, 1], (x + 1) * 127.5, round half to even.

    Example:
        ::

            VideoRewardConfig(
                provider_revision="sha256:4f1c...",
                enqueue_url="https://rewards.example.com/api/reward/enqueue",
                pull_url="https://rewards.example.com/api/reward/pull",
                fps=16,
                score_clip=(-5.0, 5.0),
            )

    Raises:
        RewardConfigError: naming every field that is not valid.
    """

    media_type: ClassVar[MediaType] = "video"
    floats: ClassVar[frozenset[str]] = frozenset({"fps", "range_tolerance"})

    fps: float
    """Frames per second that the service is told, in (0, 1000]; it never guesses."""
    reward: str = "dance_grpo"
    """See `ServiceConfig`; by default the DanceGRPO video reward."""
    score_key: str = "overall_reward"
    """See `ServiceConfig`; by default that reward's sum of its three series."""
    range_tolerance: float = 1e-3
    """How far outside of [-1, 1] a pixel may lie and still be clamped, in [0, 1]; beyond it the sample is refused."""

    def _own_faults(self) -> list[str]:
        return [
            *number_faults("fps", self.fps, low=0.0, high=1000.0, unit="frames/s"),
            *number_faults("range_tolerance", self.range_tolerance, low=0.0, high=1.0, unit="", above=False),
        ]
