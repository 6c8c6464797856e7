# SPDX-License-Identifier: Apache-2.0
"""The candidates of a group against each other, two at a time."""

from posttrain.judges.pairwise.judge import PairwiseJudge

__all__ = ["PairwiseJudge"]
