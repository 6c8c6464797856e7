# SPDX-License-Identifier: Apache-2.0
"""Asking a model behind an OpenAI-compatible endpoint: many calls at once, within limits and deadlines."""

from posttrain.judges.endpoint.call import JudgeAnswer, JudgeCall, JudgeReplyError, ReplyFault
from posttrain.judges.endpoint.endpoint import JudgeEndpoint

__all__ = ["JudgeAnswer", "JudgeCall", "JudgeEndpoint", "JudgeReplyError", "ReplyFault"]
