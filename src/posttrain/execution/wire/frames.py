# SPDX-License-Identifier: Apache-2.0
"""Messages on a stream of bytes: a mark, a version, a kind and a length in front of each.

Whatever else gets onto the stream is told from a message by the mark, and a length is bounded before any memory is
taken for it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, final

from posttrain.execution.wire.packing import WireError

__all__ = ["HEADER_SIZE", "MAX_FRAME", "FrameReader", "frame_header", "read_header"]

_HEADER: Final = struct.Struct("!3sBBI")
_MARK: Final = b"\xabPT"
_VERSION: Final = 1

HEADER_SIZE: Final = _HEADER.size
"""Bytes in front of a payload."""
MAX_FRAME: Final = 1 << 30
"""Bytes of the longest payload."""


def frame_header(kind: int, length: int) -> bytes:
    """What stands in front of a payload.

    Args:
        kind: of the message, 0 to 255; the two sides agree on them.
        length: bytes of the payload.

    Raises:
        WireError: the payload is longer than `MAX_FRAME`.
    """
    if length > MAX_FRAME:
        raise WireError(f"a message of {length} bytes is longer than a frame may be, {MAX_FRAME} bytes")
    return _HEADER.pack(_MARK, _VERSION, kind, length)


def read_header(data: bytes) -> tuple[int, int]:
    """Kind and length of the payload that follows.

    Raises:
        WireError: this is no header, or one of another version, or the payload would be too long.
    """
    mark, version, kind, length = _HEADER.unpack_from(data)
    if mark != _MARK:
        raise WireError(f"expected a message, got {data[:HEADER_SIZE]!r}")
    if version != _VERSION:
        raise WireError(f"expected a message of version {_VERSION}, got version {version}: both sides need one release")
    if length > MAX_FRAME:
        raise WireError(f"a message of {length} bytes is announced, longer than a frame may be ({MAX_FRAME} bytes)")
    return kind, length


@final
class FrameReader:
    """Takes bytes as they come and gives the messages that are whole."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Take bytes in; gives kind and payload of each message that they complete.

        Raises:
            WireError: see `read_header`. Nothing can be read from the stream after that.
        """
        buffer = self._buffer
        buffer += data
        start = 0
        try:
            while len(buffer) - start >= HEADER_SIZE:
                kind, length = read_header(bytes(buffer[start : start + HEADER_SIZE]))
                end = start + HEADER_SIZE + length
                if len(buffer) < end:
                    break
                payload = bytes(memoryview(buffer)[start + HEADER_SIZE : end])
                start = end
                yield kind, payload
        finally:
            del buffer[:start]
