# SPDX-License-Identifier: Apache-2.0
"""The config of a run: one tree of keys under ``rl``, from a file and overrides, with the place of every value."""

from posttrain.runs.config.load import ResolvedConfig, load_config, resolve_config
from posttrain.runs.config.model import (
    DataConfig,
    RewardStageConfig,
    RLConfig,
    RunConfig,
    ValidationConfig,
)
from posttrain.runs.config.node import Node, given

__all__ = [
    "DataConfig",
    "Node",
    "RLConfig",
    "ResolvedConfig",
    "RewardStageConfig",
    "RunConfig",
    "ValidationConfig",
    "given",
    "load_config",
    "resolve_config",
]
