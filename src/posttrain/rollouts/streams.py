# SPDX-License-Identifier: Apache-2.0
"""The bytes of a plain, gzip or zstd file, decompressed on the way, with a count of what was read."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, final

from posttrain.errors import RewardConfigError, RewardContractError

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["RowStream", "StreamFault"]

_BUFFER = 1 << 18
# Compressed bytes taken at a time. Small, because a hostile file can blow each of them up some 30,000 times.
_SIP = 1 << 12
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


class StreamFault(Exception):  # noqa: N818  # internal signal: the reader of the rows turns it into a fault of a row
    """The file can't be read any further."""


class _Frame(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


@final
class RowStream:
    """A file opened for reading by rows; ``.gz`` and ``.zst`` files are decompressed, told by their suffix.

    Raises:
        RewardConfigError: there is no such file, or it can't be opened.
    """

    __slots__ = ("_file", "_is_plain", "_path", "_reader", "readline")

    readline: Callable[[int], bytes]
    """At most so many bytes, to the end of the line; empty at the end of the file. May raise `StreamFault`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = io.BufferedReader(io.FileIO(path), _BUFFER)
        except OSError as error:
            raise RewardConfigError(f"can't read {path}: {error.strerror}") from error
        frames = _decompressing(path, self._file)
        self._is_plain = frames is None
        self._reader: io.BufferedReader[Any] = self._file if frames is None else io.BufferedReader(frames, _BUFFER)
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


def _decompressing(path: Path, file: io.BufferedReader[Any]) -> _Frames | None:
    suffix = path.suffix.lower()
    if suffix == ".gz":
        return _Frames(file, lambda: zlib.decompressobj(_GZIP_WINDOW), zlib.error, "gzip")
    if suffix == ".zst":
        import zstandard

        decompressor = zstandard.ZstdDecompressor()
        return _Frames(file, decompressor.decompressobj, zstandard.ZstdError, "zstd")
    return None


@final
class _Frames(io.RawIOBase):
    """Decompresses a file of any number of frames (gzip calls them members), one after the other.

    Both formats let files be concatenated, and both libraries' own readers fall short here: gzip's gives EOFError at
    a truncated file, zstandard's gives no error at all.
    """

    def __init__(
        self, file: io.BufferedReader[Any], begin: Callable[[], _Frame], error: type[Exception], kind: str
    ) -> None:
        super().__init__()
        self._file = file
        self._begin = begin
        self._error = error
        self._kind = kind
        self._frame: _Frame | None = None
        self._unread = b""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        while not self._ready:
            sip = self._unread or self._file.read(_SIP)
            self._unread = b""
            if not sip:
                if self._frame is not None:
                    raise StreamFault(f"the {self._kind} file is cut off: its last part is missing; copy it again")
                return 0
            self._decompress(sip)
        space = memoryview(buffer)
        count = min(len(space), len(self._ready))
        space[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _decompress(self, sip: bytes) -> None:
        if self._frame is None:
            # Tape and block tools pad gzip files with zeros; the format's own tools skip them too.
            sip = sip.lstrip(b"\0")
            if not sip:
                return
            self._frame = self._begin()
        try:
            self._ready = memoryview(self._frame.decompress(sip))
        except self._error as error:
            raise StreamFault(
                f"the file is damaged or is no {self._kind} file at all, as its suffix says it is: {error}"
            ) from error
        if self._frame.eof:
            self._unread = self._frame.unused_data
            self._frame = None
