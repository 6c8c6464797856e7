# SPDX-License-Identifier: Apache-2.0
"""The reward stage inside TRL's GRPO. See `docs/trl.md`.

The trainer is loaded when it is first used: it brings torch and TRL with it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from posttrain.integrations.trl.reward import StageReward

if TYPE_CHECKING:
    from posttrain.integrations.trl.trainer import StageGRPOTrainer

__all__ = ["StageGRPOTrainer", "StageReward"]


def __getattr__(name: str) -> Any:
    if name != "StageGRPOTrainer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module("posttrain.integrations.trl.trainer").StageGRPOTrainer
