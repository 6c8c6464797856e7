# SPDX-License-Identifier: Apache-2.0
"""The members of a zip archive that may be compressed with zstd, which Python's own reader learns in 3.14 only."""

from __future__ import annotations

import zlib
from pathlib import Path
from struct import Struct
from typing import BinaryIO, Final
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from posttrain.errors import RewardConfigError

__all__ = ["MAX_MEMBER_BYTES", "DamagedMember", "listed_members", "read_member"]

MAX_MEMBER_BYTES: Final = 1 << 30
"""Longest member that is read, 1 GiB decompressed."""

_ZSTD: Final = 93
_LOCAL_HEADER: Final = Struct("<4s22xHH")


class DamagedMember(Exception):  # noqa: N818  # internal signal: the fault of a row
    """A member can't be read."""


def listed_members(path: Path) -> list[ZipInfo]:
    """The members of an archive, in its order; of two with one name, the last, where it stands.

    Raises:
        RewardConfigError: the file is no zip archive, or can't be read.
    """
    try:
        with ZipFile(path) as archive:
            members: dict[str, ZipInfo] = {}
            for each in archive.infolist():
                members.pop(each.filename, None)
                members[each.filename] = each
            return list(members.values())
    except (OSError, BadZipFile) as error:
        raise RewardConfigError(f"{path} can't be read as an archive: {error}") from error


def read_member(file: BinaryIO, member: ZipInfo) -> bytes:
    """The decompressed bytes of a member.

    Raises:
        DamagedMember: it is larger than `MAX_MEMBER_BYTES`, damaged, or compressed by an unknown method.
    """
    if member.file_size > MAX_MEMBER_BYTES:
        raise DamagedMember(f"is larger than {MAX_MEMBER_BYTES:,} bytes")
    try:
        file.seek(member.header_offset)
        header = file.read(_LOCAL_HEADER.size)
        if len(header) < _LOCAL_HEADER.size:
            raise DamagedMember("is damaged: its header is cut off")
        _, name, extra = _LOCAL_HEADER.unpack(header)
        file.seek(name + extra, 1)
        packed = file.read(member.compress_size)
    except OSError as error:
        raise DamagedMember(f"can't be read: {error.strerror or error}") from error
    data = _unpacked(packed, member)
    if len(data) != member.file_size or zlib.crc32(data) != member.CRC:
        raise DamagedMember("is damaged: its checksum does not match; copy the file again")
    return data


def _unpacked(packed: bytes, member: ZipInfo) -> bytes:
    if member.compress_type == ZIP_STORED:
        return packed
    try:
        if member.compress_type == ZIP_DEFLATED:
            return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, member.file_size)
        if member.compress_type == _ZSTD:
            return _unpacked_zstd(packed, member.file_size)
    except (zlib.error, ValueError) as error:
        raise DamagedMember(f"is damaged: {error}; copy the file again") from error
    raise DamagedMember(f"is compressed by method {member.compress_type}, which is not known here")


def _unpacked_zstd(packed: bytes, size: int) -> bytes:
    """At most one byte more than `size`; a member is one frame or several.

    Raises:
        ValueError: the data is no zstd.
    """
    import zstandard

    reader = zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True)
    try:
        return reader.read(size + 1)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error
