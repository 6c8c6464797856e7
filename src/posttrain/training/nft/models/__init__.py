# SPDX-License-Identifier: Apache-2.0
"""Diffusion models in the style of Wan: a tiny one made in the process, and real checkpoints."""

from posttrain.training.nft.models.bundle import DiffusionModel
from posttrain.training.nft.models.decoder import WanDecoder
from posttrain.training.nft.models.load import load_model

__all__ = ["DiffusionModel", "WanDecoder", "load_model"]
