# SPDX-License-Identifier: Apache-2.0
"""Where groups are evaluated beyond the caller's own process: the same stage, the same results to the bit.

The names are loaded when they are first used, so that none of them costs what it does not need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posttrain.execution.processes.evaluator import ProcessEvaluator
    from posttrain.execution.ranks.evaluator import RankEvaluator
    from posttrain.execution.ray.evaluator import RayEvaluator

__all__ = ["ProcessEvaluator", "RankEvaluator", "RayEvaluator"]

_HOMES = {
    "ProcessEvaluator": "posttrain.execution.processes.evaluator",
    "RankEvaluator": "posttrain.execution.ranks.evaluator",
    "RayEvaluator": "posttrain.execution.ray.evaluator",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
