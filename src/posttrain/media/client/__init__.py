# SPDX-License-Identifier: Apache-2.0
"""The client of the reward service: one enqueue, then pulls until the score is there or the deadline is over."""

from posttrain.media.client.client import RewardServiceClient

__all__ = ["RewardServiceClient"]
