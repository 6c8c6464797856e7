# SPDX-License-Identifier: Apache-2.0
"""DiffusionNFT (arXiv 2509.16117) on image and video models, with the reward stage inside. See docs/nft.md."""

from posttrain.training.nft.loss import implicit_velocities, nft_loss, noised, optimality
from posttrain.training.nft.telemetry import BatchTelemetry, GroupTelemetry, read_telemetry

__all__ = [
    "BatchTelemetry",
    "GroupTelemetry",
    "implicit_velocities",
    "nft_loss",
    "noised",
    "optimality",
    "read_telemetry",
]
