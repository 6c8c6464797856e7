# SPDX-License-Identifier: Apache-2.0
"""The header of a `.npy` file, read without numpy and without reading the array: shape and size are known before it.

Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html. Pickled objects can't come in: only
the data type ``|u1`` is let through.
"""

from __future__ import annotations

import ast
import math
from typing import Any, Final, NamedTuple, final

from posttrain.errors import describe
from posttrain.service.protocol.refusal import Refusal

__all__ = ["LONGEST_HEADER", "NpyHeader", "header_length", "parse_header"]

LONGEST_HEADER: Final = 1 << 16
"""Bytes that a header may take; numpy writes 128."""

_MAGIC: Final = b"\x93NUMPY"
_PREFIX: Final = 12
_KEYS: Final = {"descr", "fortran_order", "shape"}
_UINT8: Final = frozenset({"|u1", "u1", "<u1", ">u1", "=u1"})
_OTHERS: Final = {
    b"PK\x03\x04": "a zip file (.npz, or torch.save in its default format)",
    b"\x89PNG": "a PNG file",
    b"\xff\xd8\xff": "a JPEG file",
    b"\x80\x02": "a pickle",
}


@final
class NpyHeader(NamedTuple):
    """What a header says."""

    shape: tuple[int, ...]
    data_offset: int
    """Bytes before the array's first."""

    @property
    def total_bytes(self) -> int:
        """Size of the whole file: one byte an element."""
        return self.data_offset + math.prod(self.shape)


def header_length(start: bytes) -> int | None:
    """Length of the header, counted from the file's first byte; None: `start` is too short to tell.

    Raises:
        Refusal: the bytes are no `.npy`, of a version that is not known, or the header is longer than any that is real.
    """
    if not _MAGIC.startswith(start[: len(_MAGIC)]):
        other = next((name for magic, name in _OTHERS.items() if start.startswith(magic)), None)
        raise Refusal(400, f"the array is no .npy file: it is {other or 'something else'}; use numpy.save")
    if len(start) < _PREFIX:
        return None
    major, minor = start[6], start[7]
    if major not in {1, 2, 3} or minor != 0:
        raise Refusal(400, f"the array is a .npy file of version {major}.{minor}: expected 1.0, 2.0 or 3.0")
    width = 2 if major == 1 else 4
    length = 8 + width + int.from_bytes(start[8 : 8 + width], "little")
    if length > LONGEST_HEADER:
        raise Refusal(400, f"the header of the .npy file claims {length} bytes, more than {LONGEST_HEADER}")
    return length


def parse_header(header: bytes) -> NpyHeader:
    """Shape and offset of an array of bytes.

    Args:
        header: the file's first `header_length` bytes.

    Raises:
        Refusal: 400 when it is malformed, 422 when the array is not of unsigned bytes.
    """
    major = header[6]
    text = header[10 if major == 1 else 12 :]
    try:
        fields: Any = ast.literal_eval(text.decode("latin-1" if major < 3 else "utf-8").strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise Refusal(400, "the header of the .npy file can't be read: use numpy.save") from error
    if not isinstance(fields, dict) or set(fields) != _KEYS or type(fields["fortran_order"]) is not bool:
        raise Refusal(400, "the header of the .npy file has not the fields descr, fortran_order and shape")
    shape = fields["shape"]
    if not isinstance(shape, tuple) or any(type(size) is not int or size < 0 for size in shape):
        raise Refusal(400, f"the shape in the .npy file is none: {describe(shape)}")
    if not isinstance(fields["descr"], str) or fields["descr"] not in _UINT8:
        raise Refusal(422, f"the array's data type is {describe(fields['descr'])}: expected uint8 ('|u1')")
    return NpyHeader(shape, len(header))
