# SPDX-License-Identifier: Apache-2.0
"""`VideoReward`: the decoded-video reward."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Final, final

from posttrain.media.adapter.provider import MediaReward, spec_of
from posttrain.media.config import ServiceConfig, VideoRewardConfig
from posttrain.media.sample import SampleScorer
from posttrain.rewards.contract.spec import RewardProviderSpec

__all__ = ["VideoReward"]

_ADAPTER: Final = "posttrain.media.video/1"
"""Changes when this adapter's own code changes a score."""


@final
class VideoReward(MediaReward):
    """Decodes a final latent on its rank, has the uint8 video [1,3,T,H,W] scored by the service, reads its one score.

    Args:
        config: the service and its bounds.
        term: name of the one term.
        scorer: has a sample scored; by default a `RewardServiceClient` of the config.
    """

    config_type: ClassVar[type[ServiceConfig]] = VideoRewardConfig

    def __init__(self, config: VideoRewardConfig, *, term: str = "video", scorer: SampleScorer | None = None) -> None:
        MediaReward.__init__(self, config, term=term, scorer=scorer)

    @classmethod
    def spec(cls, config: VideoRewardConfig, *, term: str = "video") -> RewardProviderSpec:
        """The catalog entry of this config.

        Args:
            config: the service and its bounds.
            term: name of the one term, for example where two rewards score together.
        """
        return spec_of(config, term, _ADAPTER, partial(cls, config, term=term))
