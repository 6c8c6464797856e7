# SPDX-License-Identifier: Apache-2.0
"""Score saved rollouts: a file of any length in flat memory, durable, and resumable under the same identity."""

from posttrain.runs.offline.explain import Explanation, explain
from posttrain.runs.offline.failure import FailedRequest, load_failed_request, replay
from posttrain.runs.offline.scoring import FileScores, Progress, score_file

__all__ = [
    "Explanation",
    "FailedRequest",
    "FileScores",
    "Progress",
    "explain",
    "load_failed_request",
    "replay",
    "score_file",
]
