# SPDX-License-Identifier: Apache-2.0
"""Test tools for reward authors; our own tests use the same."""

from posttrain.testing.clock import ManualClock
from posttrain.testing.judge_server import FakeJudgeServer, JudgeReply, JudgeRequest
from posttrain.testing.reward_service import FakeRewardService
from posttrain.testing.scripted import ScriptedProvider
from posttrain.testing.trying import try_scorer

__all__ = [
    "FakeJudgeServer",
    "FakeRewardService",
    "JudgeReply",
    "JudgeRequest",
    "ManualClock",
    "ScriptedProvider",
    "try_scorer",
]
