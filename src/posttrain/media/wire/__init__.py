# SPDX-License-Identifier: Apache-2.0
"""The shapes of the reward service's protocol: what is sent, and what each answer means. Nothing here does I/O."""

from posttrain.media.wire.enqueued import Enqueued, read_enqueued
from posttrain.media.wire.pulled import Pending, Pulled, Scored, Unanswered, read_pulled
from posttrain.media.wire.quoting import Quoter
from posttrain.media.wire.request import REPLICA_HEADER, enqueue_line, pull_form

__all__ = [
    "REPLICA_HEADER",
    "Enqueued",
    "Pending",
    "Pulled",
    "Quoter",
    "Scored",
    "Unanswered",
    "enqueue_line",
    "pull_form",
    "read_enqueued",
    "read_pulled",
]
