# SPDX-License-Identifier: Apache-2.0
"""A policy on the tiny image model."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from posttrain.runs import load_config
from posttrain.training.nft.models import load_model
from posttrain.training.nft.policy import DiffusionPolicy


@pytest.fixture
def policy() -> Callable[..., DiffusionPolicy]:
    """`policy("rl.nft.beta=0.5")` is one with that setting; images of 16 by 16."""

    def make(*overrides: str) -> DiffusionPolicy:
        settings = ["rl.nft.media=image", "rl.nft.height=16", "rl.nft.width=16", "rl.nft.sampling_steps=2"]
        needed = ["rl.reward=image", "rl.group_size=2", "rl.policy.model=tiny"]
        config = load_config(None, [*needed, *settings, *overrides])
        return DiffusionPolicy(load_model(config, torch.device("cpu")), config.nft)

    return make
