# SPDX-License-Identifier: Apache-2.0
"""All candidates of a group in one question."""

from posttrain.judges.listwise.judge import ListwiseJudge

__all__ = ["ListwiseJudge"]
