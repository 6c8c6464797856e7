# SPDX-License-Identifier: Apache-2.0
"""What a media reward is configured with: plain frozen values that import neither numpy nor torch."""

from posttrain.media.config.image import ImageRewardConfig
from posttrain.media.config.service import REVISION_SENTINEL, ServiceConfig
from posttrain.media.config.video import VideoRewardConfig

__all__ = ["REVISION_SENTINEL", "ImageRewardConfig", "ServiceConfig", "VideoRewardConfig"]
