# SPDX-License-Identifier: Apache-2.0
"""The bytes of a plain, gzip or zstd file, decompressed on the way, with a count of what was read."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, final

from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.jsonl.chunks import decompressed, is_compressed

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["RowStream"]

_BUFFER = 1 << 18


@final
class RowStream:
    """A file opened for reading by rows; ``.gz`` and ``.zst`` files are decompressed, told by their suffix.

    Raises:
        RewardConfigError: there is no such file, or it can't be opened.
    """

    __slots__ = ("_file", "_is_plain", "_path", "_reader", "readline")

    readline: Callable[[int], bytes]
    """At most so many bytes, to the end of the line; empty at the end of the file. May raise `DamagedFile`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = io.BufferedReader(io.FileIO(path), _BUFFER)
        except OSError as error:
            raise RewardConfigError(f"can't read {path}: {error.strerror}") from error
        self._is_plain = not is_compressed(path)
        self._reader: io.BufferedReader[Any] = self._file
        if not self._is_plain:
            self._reader = io.BufferedReader(_Pieces(decompressed(self._file, path.suffix)), _BUFFER)
        self.readline = self._reader.readline

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._reader.close()
        self._file.close()

    @property
    def consumed(self) -> int:
        """Bytes of the file read so far, compressed ones where it is compressed: at most the size of the file."""
        return self._file.tell()

    def skip_to(self, offset: int) -> None:
        """Go to a decompressed offset, at which a row begins.

        Raises:
            RewardContractError: the file has no such offset, or no row begins there: it is not the file it was.
        """
        if offset == 0:
            return
        last = self._seek_behind(offset) if self._is_plain else self._read_behind(offset)
        if not last or (last != b"\n" and self._reader.peek(1)):
            raise RewardContractError(
                f"{self._path}: no row begins at byte {offset}, where the earlier run had come to: the file has "
                "changed since; start over with --restart"
            )

    def _seek_behind(self, offset: int) -> bytes:
        self._reader.seek(offset - 1)
        return self._reader.read(1)

    def _read_behind(self, offset: int) -> bytes:
        last = b""
        while offset:
            chunk = self._reader.read(min(offset, _BUFFER))
            if not chunk:
                return b""
            offset -= len(chunk)
            last = chunk[-1:]
        return last


@final
class _Pieces(io.RawIOBase):
    """Pieces of bytes as a file.

    The formats' own readers fall short here: gzip's gives EOFError at a truncated file, zstandard's no error at all.
    """

    def __init__(self, pieces: Iterator[bytes]) -> None:
        super().__init__()
        self._pieces = pieces
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        while not self._ready:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._ready = memoryview(piece)
        space = memoryview(buffer)
        count = min(len(space), len(self._ready))
        space[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count
