# SPDX-License-Identifier: Apache-2.0
"""Image and video rewards: a latent is decoded on its own rank and scored by a reward service over the network."""

from posttrain.media.adapter import ImageReward, MediaDecoder, VideoReward, attach_decoder
from posttrain.media.client import RewardServiceClient
from posttrain.media.config import REVISION_SENTINEL, ImageRewardConfig, VideoRewardConfig
from posttrain.media.sample import SampleScorer, ServiceScore, SpooledSample
from posttrain.media.transport import CurlTransport
from posttrain.rewards.contract.request import LatentCandidate

__all__ = [
    "REVISION_SENTINEL",
    "CurlTransport",
    "ImageReward",
    "ImageRewardConfig",
    "LatentCandidate",
    "MediaDecoder",
    "RewardServiceClient",
    "SampleScorer",
    "ServiceScore",
    "SpooledSample",
    "VideoReward",
    "VideoRewardConfig",
    "attach_decoder",
]
