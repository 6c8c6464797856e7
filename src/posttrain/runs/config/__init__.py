# SPDX-License-Identifier: Apache-2.0
"""The config of a run: one tree of keys under ``rl``, from a file and overrides, with the place of every value."""

from posttrain.runs.config.backend import evaluator_of
from posttrain.runs.config.execution import ProcessesConfig
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
    "ProcessesConfig",
    "RLConfig",
    "ResolvedConfig",
    "RewardStageConfig",
    "RunConfig",
    "ValidationConfig",
    "evaluator_of",
    "given",
    "load_config",
    "resolve_config",
]
