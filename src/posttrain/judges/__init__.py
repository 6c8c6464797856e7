# SPDX-License-Identifier: Apache-2.0
"""Judges: providers whose scores come from a language model behind an OpenAI-compatible endpoint."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posttrain.judges.config import JudgeConfig
    from posttrain.judges.listwise import ListwiseJudge
    from posttrain.judges.pairwise import PairwiseJudge
    from posttrain.judges.rubric import RubricItem, RubricJudge

__all__ = ["JudgeConfig", "ListwiseJudge", "PairwiseJudge", "RubricItem", "RubricJudge"]

_HOME = {
    "JudgeConfig": "posttrain.judges.config",
    "ListwiseJudge": "posttrain.judges.listwise",
    "PairwiseJudge": "posttrain.judges.pairwise",
    "RubricItem": "posttrain.judges.rubric",
    "RubricJudge": "posttrain.judges.rubric",
}


def __getattr__(name: str) -> Any:
    # A config alone needs none of the judges, and one judge none of the others.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
