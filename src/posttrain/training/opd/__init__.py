# SPDX-License-Identifier: Apache-2.0
"""On-policy distillation: a student learns from a frozen teacher's opinion of the student's own samples.

Everything that brings torch with it is loaded when it is first used. See `docs/opd.md`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from posttrain.training.opd.run import run_opd

if TYPE_CHECKING:
    from posttrain.training.opd.trainer import StageOPDTrainer

__all__ = ["StageOPDTrainer", "run_opd"]


def __getattr__(name: str) -> Any:
    if name != "StageOPDTrainer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module("posttrain.training.opd.trainer").StageOPDTrainer
