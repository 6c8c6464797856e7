# SPDX-License-Identifier: Apache-2.0
"""Bound groups and their outcomes as bytes between processes: what comes out is what went in, bit for bit."""

from posttrain.execution.wire.frames import MAX_FRAME, FrameReader, frame_header
from posttrain.execution.wire.groups import decode_groups, encode_groups
from posttrain.execution.wire.outcomes import Outcome, decode_error, decode_outcomes, encode_error, encode_outcomes
from posttrain.execution.wire.packing import WireError

__all__ = [
    "MAX_FRAME",
    "FrameReader",
    "Outcome",
    "WireError",
    "decode_error",
    "decode_groups",
    "decode_outcomes",
    "encode_error",
    "encode_groups",
    "encode_outcomes",
    "frame_header",
]
