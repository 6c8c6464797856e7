# SPDX-License-Identifier: Apache-2.0
"""Runs of the stage: on saved rollouts, and what surrounds it in training."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posttrain.runs.checks import preflight
    from posttrain.runs.config import RLConfig, load_config
    from posttrain.runs.directory import RunDirectory
    from posttrain.runs.validation import HeldOutValidation

__all__ = ["HeldOutValidation", "RLConfig", "RunDirectory", "load_config", "preflight"]

_HOME = {
    "HeldOutValidation": "posttrain.runs.validation",
    "RLConfig": "posttrain.runs.config",
    "RunDirectory": "posttrain.runs.directory",
    "load_config": "posttrain.runs.config",
    "preflight": "posttrain.runs.checks",
}


def __getattr__(name: str) -> Any:
    # The config needs pydantic and YAML, which scoring does not.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
