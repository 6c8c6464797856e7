# SPDX-License-Identifier: Apache-2.0
"""Take in one enqueue: a line of JSON, LF, and an array that goes to the spool as it comes.

What can be known early is checked early: nothing of the array is read before its line and its header are accepted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final, final

from posttrain.service.protocol.npy import LONGEST_HEADER, NpyHeader, header_length, parse_header
from posttrain.service.protocol.refusal import Refusal
from posttrain.service.protocol.request_line import RequestLine
from posttrain.service.work.spool import SpooledFile

__all__ = ["take_in"]

_BLOCK: Final = 1 << 20
"""Bytes that are gathered for one write."""


async def take_in(
    stream: AsyncIterator[bytes],
    *,
    most_line_bytes: int,
    accept: Callable[[bytes, NpyHeader], tuple[RequestLine, SpooledFile]],
) -> tuple[RequestLine, SpooledFile]:
    """Read a whole body.

    Args:
        stream: the body, in pieces.
        most_line_bytes: bytes that the line of JSON may take.
        accept: told the line and the header; gives the checked request and room for the array, or refuses.

    Returns:
        The request and its array, complete and closed for writing. The caller removes it.

    Raises:
        Refusal: the body is not what it must be; nothing of it is left.
    """
    reader = _Reader(stream)
    line = await reader.until_newline(most_line_bytes)
    header = await _header(reader)
    parsed = parse_header(header)
    request, file = accept(line, parsed)
    try:
        await _array(reader, header, file)
    except BaseException:
        file.remove()
        raise
    return request, file


async def _header(reader: _Reader) -> bytes:
    at_least = 1
    while True:
        start = await reader.peek(at_least)
        if not start:
            raise Refusal(400, "there is no array behind the first line")
        length = header_length(start)
        if length is not None:
            header = await reader.peek(length)
            if len(header) < length:
                raise Refusal(400, "the .npy file ends in its header")
            return reader.take(length)
        if len(start) < at_least:
            raise Refusal(400, "the .npy file ends in its header")
        at_least = len(start) + 1
        if at_least > LONGEST_HEADER:
            raise Refusal(400, "the .npy file has no header")


async def _array(reader: _Reader, header: bytes, file: SpooledFile) -> None:
    block = bytearray(header)
    total = len(header)
    async for piece in reader.rest():
        total += len(piece)
        if total > file.size:
            raise Refusal(400, f"there are bytes behind the array: it ends after {file.size} bytes of .npy")
        block += piece
        if len(block) >= _BLOCK:
            await _write(file, block)
            block = bytearray()
    if total < file.size:
        raise Refusal(400, f"the array is cut off: {total} of {file.size} bytes of .npy came")
    await _write(file, block)
    file.finish()


async def _write(file: SpooledFile, block: bytearray) -> None:
    try:
        if len(block) < _BLOCK:
            file.write(block)
        else:
            # A slow disk must not hold up other requests.
            writing = asyncio.ensure_future(asyncio.to_thread(file.write, block))
            try:
                await asyncio.shield(writing)
            except asyncio.CancelledError:
                # The file is closed next, and its descriptor may be another's at once: not while it is written to.
                await asyncio.wait({writing})
                raise
    except OSError as error:
        raise Refusal(507, f"the array can't be spooled: {error.strerror or 'the disk failed'}") from error


@final
class _Reader:
    """The body, with what was read ahead."""

    def __init__(self, stream: AsyncIterator[bytes]) -> None:
        self._stream = stream
        self._ahead = bytearray()

    async def until_newline(self, most: int) -> bytes:
        """The first line, without its end."""
        looked = 0
        while (at := self._ahead.find(b"\n", looked)) < 0:
            looked = len(self._ahead)
            if looked > most:
                raise Refusal(400, f"there is no line feed in the first {most} bytes: expected one line of JSON first")
            if not await self._more():
                what = "the body is empty" if not self._ahead else "there is no line feed"
                raise Refusal(400, f"{what}: expected one line of JSON, a line feed and the bytes of a .npy file")
        if at > most:
            raise Refusal(400, f"the first line has more than {most} bytes")
        line = self.take(at)
        del self._ahead[:1]
        return line

    async def peek(self, size: int) -> bytes:
        """At least so many bytes, fewer where the body ends; they stay."""
        while len(self._ahead) < size and await self._more():
            pass
        return bytes(self._ahead[: max(size, 64)])

    def take(self, size: int) -> bytes:
        """So many of the bytes that were peeked at."""
        taken = bytes(self._ahead[:size])
        del self._ahead[:size]
        return taken

    async def rest(self) -> AsyncIterator[bytes]:
        """Everything from here on."""
        if self._ahead:
            yield bytes(self._ahead)
            self._ahead.clear()
        async for piece in self._stream:
            if piece:
                yield piece

    async def _more(self) -> bool:
        async for piece in self._stream:
            if piece:
                self._ahead += piece
                return True
        return False
