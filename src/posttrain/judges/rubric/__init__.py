# SPDX-License-Identifier: Apache-2.0
"""Each candidate by itself, item by item of a rubric."""

from posttrain.judges.rubric.item import RubricItem
from posttrain.judges.rubric.judge import RubricJudge

__all__ = ["RubricItem", "RubricJudge"]
