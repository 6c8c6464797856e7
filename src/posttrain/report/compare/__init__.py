# SPDX-License-Identifier: Apache-2.0
"""What two scorings of the same rollouts differ in."""

from posttrain.report.compare.changes import TermChange
from posttrain.report.compare.comparison import Comparison, GroupChange, compare_scores
from posttrain.report.compare.view import write_comparison

__all__ = ["Comparison", "GroupChange", "TermChange", "compare_scores", "write_comparison"]
