# SPDX-License-Identifier: Apache-2.0
"""The lines of a plain, gzip or zstd file, decompressed on the way."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Protocol

__all__ = ["DamagedFile", "SupportsRead", "decompressed", "is_compressed", "read_chunks", "split_lines"]

_CHUNK = 1 << 18
# Compressed bytes taken at a time. Small, because a hostile file can blow each of them up some 30,000 times.
_SIP = 1 << 12
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


class DamagedFile(Exception):  # noqa: N818  # internal signal: the reader turns it into a fault of a row
    """The file can't be read any further."""


class SupportsRead(Protocol):
    """A file opened for reading bytes."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes; empty at the end."""
        ...


class _Frame(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


def is_compressed(path: Path) -> bool:
    """Whether the file's suffix says that it is compressed."""
    return path.suffix.lower() in {".gz", ".zst"}


def read_chunks(file: IO[bytes], suffix: str) -> Iterator[bytes]:
    """A file's bytes, decompressed, in pieces of any size.

    Args:
        file: the file, opened without a buffer.
        suffix: the last suffix of its name; ``.gz`` and ``.zst`` say that it is compressed.

    Raises:
        OSError: it can't be read.
        DamagedFile: it is not what its suffix says, or it is cut off.
    """
    if is_compressed(Path(f"_{suffix}")):
        yield from decompressed(file, suffix)
    else:
        yield from iter(lambda: file.read(_CHUNK), b"")


def decompressed(file: SupportsRead, suffix: str) -> Iterator[bytes]:
    """The content of a compressed file, in pieces of any size.

    Args:
        file: the file; it is read in small pieces.
        suffix: ``.gz`` or ``.zst``.

    Raises:
        OSError: it can't be read.
        DamagedFile: it is not what its suffix says, or it is cut off.
    """
    sips = iter(lambda: file.read(_SIP), b"")
    if suffix.lower() == ".gz":
        return _frames(sips, lambda: zlib.decompressobj(_GZIP_WINDOW), zlib.error, "gzip")
    import zstandard

    return _frames(sips, zstandard.ZstdDecompressor().decompressobj, zstandard.ZstdError, "zstd")


def _frames(sips: Iterable[bytes], begin: Callable[[], _Frame], error: type[Exception], kind: str) -> Iterator[bytes]:
    # Both formats let files be concatenated, and neither library's own reader tells each truncated file.
    frame: _Frame | None = None
    for sip in sips:
        left = sip
        while left:
            if frame is None:
                # Block tools pad files with zeros; the formats' own tools skip them too.
                left = left.lstrip(b"\0")
                if not left:
                    break
                frame = begin()
            try:
                chunk = frame.decompress(left)
            except error as wrong:
                raise DamagedFile(f"the file is damaged, or is no {kind} file as its suffix says: {wrong}") from wrong
            yield chunk
            left = b""
            if frame.eof:
                left, frame = frame.unused_data, None
    if frame is not None:
        raise DamagedFile(f"the {kind} file is cut off: its last part is missing; copy it again")


def split_lines(chunks: Iterable[bytes], longest: int) -> Iterator[tuple[bytes | None, int]]:
    """The lines of a stream, without their line feeds, and how many bytes each takes with it.

    Args:
        chunks: the stream.
        longest: of a line with more bytes only the length is kept, and None is given in its place.
    """
    held: list[bytes] = []
    size = 0
    for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            size += len(piece)
            yield (None if size > longest else b"".join((*held, piece)) if held else piece), size + 1
            held, size = [], 0
        size += len(rest)
        if size > longest:
            held = []
        elif rest:
            held.append(rest)
    if size:
        yield (None if size > longest else b"".join(held)), size
