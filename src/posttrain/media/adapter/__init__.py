# SPDX-License-Identifier: Apache-2.0
"""The rank-local adapters: a latent is decoded where it lies, and its pixels are scored by the service."""

from posttrain.media.adapter.decoder import MediaDecoder, attach_decoder
from posttrain.media.adapter.image import ImageReward
from posttrain.media.adapter.video import VideoReward

__all__ = ["ImageReward", "MediaDecoder", "VideoReward", "attach_decoder"]
