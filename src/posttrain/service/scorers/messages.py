# SPDX-License-Identifier: Apache-2.0
"""What the service and a scorer's process say to each other: the kinds of message, and how they are packed."""

from __future__ import annotations

from typing import Final

import msgspec

from posttrain.service.scorers.call import ScoreCall, ScoreReply

__all__ = ["LOAD", "READY", "REFUSED", "REPLY", "SCORE", "pack", "unpack_call", "unpack_reply", "unpack_text"]

LOAD: Final = 1
"""To the process, once: the path of its function."""
READY: Final = 2
"""From it: the function is loaded."""
REFUSED: Final = 3
"""From it: the function can't be loaded, and why."""
SCORE: Final = 4
"""To it: a `ScoreCall`."""
REPLY: Final = 5
"""From it: a `ScoreReply`."""

pack = msgspec.msgpack.Encoder().encode
unpack_text = msgspec.msgpack.Decoder(str).decode
unpack_call = msgspec.msgpack.Decoder(ScoreCall).decode
unpack_reply = msgspec.msgpack.Decoder(ScoreReply).decode
