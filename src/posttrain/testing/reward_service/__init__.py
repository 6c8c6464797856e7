# SPDX-License-Identifier: Apache-2.0
"""A reward service that misbehaves on demand: a real HTTP server whose every answer is scripted."""

from posttrain.testing.reward_service.exchange import Exchange, Received
from posttrain.testing.reward_service.service import FakeRewardService
from posttrain.testing.reward_service.steps import (
    Step,
    answer,
    answer_early,
    close_unanswered,
    cut_short,
    drop_mid_upload,
    endless_body,
    enqueued,
    never_answer,
    not_found,
    pending,
    raw,
    reset,
    scored,
    slow_body,
)

__all__ = [
    "Exchange",
    "FakeRewardService",
    "Received",
    "Step",
    "answer",
    "answer_early",
    "close_unanswered",
    "cut_short",
    "drop_mid_upload",
    "endless_body",
    "enqueued",
    "never_answer",
    "not_found",
    "pending",
    "raw",
    "reset",
    "scored",
    "slow_body",
]
