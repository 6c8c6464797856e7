# SPDX-License-Identifier: Apache-2.0
"""A real local HTTP server that stands in for a judge's endpoint."""

from posttrain.testing.judge_server.exchange import JudgeReply, JudgeRequest, JudgeScript
from posttrain.testing.judge_server.server import FakeJudgeServer

__all__ = ["FakeJudgeServer", "JudgeReply", "JudgeRequest", "JudgeScript"]
