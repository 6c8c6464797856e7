# SPDX-License-Identifier: Apache-2.0
"""`ImageReward`: the decoded-image reward."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Final, final

from posttrain.media.adapter.provider import MediaReward, spec_of
from posttrain.media.config import ImageRewardConfig, ServiceConfig
from posttrain.media.sample import SampleScorer
from posttrain.rewards.contract.spec import RewardProviderSpec

__all__ = ["ImageReward"]

_ADAPTER: Final = "posttrain.media.image/1"
"""Changes when this adapter's own code changes a score."""


@final
class ImageReward(MediaReward):
    """Decodes a final latent on its rank, has the uint8 image [1,H,W,3] scored by the service, reads its one score.

    Args:
        config: the service and its bounds.
        term: name of the one term.
        scorer: has a sample scored; by default a `RewardServiceClient` of the config.
    """

    config_type: ClassVar[type[ServiceConfig]] = ImageRewardConfig

    def __init__(self, config: ImageRewardConfig, *, term: str = "image", scorer: SampleScorer | None = None) -> None:
        MediaReward.__init__(self, config, term=term, scorer=scorer)

    @classmethod
    def spec(cls, config: ImageRewardConfig, *, term: str = "image") -> RewardProviderSpec:
        """The catalog entry of this config.

        Args:
            config: the service and its bounds.
            term: name of the one term, for example where two rewards score together.
        """
        return spec_of(config, term, _ADAPTER, partial(cls, config, term=term))
