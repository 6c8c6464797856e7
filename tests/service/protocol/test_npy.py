# SPDX-License-Identifier: Apache-2.0
"""Headers of `.npy` files, real ones and bad ones, read without numpy."""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.service.protocol.npy import LONGEST_HEADER, header_length, parse_header
from posttrain.service.protocol.refusal import Refusal
from service.driving import npy


def read(data: bytes) -> Any:
    """The header of a whole file."""
    length = header_length(data[:64])
    assert length is not None
    return parse_header(data[:length])


@given(st.lists(st.integers(0, 9), max_size=5).map(tuple), st.booleans())
def test_what_numpy_writes_is_read(shape: tuple[int, ...], fortran: bool) -> None:
    """Shape, offset and size are those of the file that numpy itself writes, in both memory orders."""
    array = np.zeros(shape, np.uint8, order="F" if fortran else "C")
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    header = read(file.getvalue())
    assert header.shape == shape
    assert header.total_bytes == len(file.getvalue())


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_version_is_read(version: int) -> None:
    """Versions 2 and 3 have a longer length field; numpy reads what we call the array's bytes."""
    data = npy(2, 3, version=version, fill=7)
    header = read(data)
    assert (header.shape, header.total_bytes) == ((2, 3), len(data))
    assert np.load(io.BytesIO(data)).tolist() == [[7, 7, 7], [7, 7, 7]]


def test_too_little_to_tell() -> None:
    """With less than the fixed part there is nothing to say, except that it is no such file at all."""
    data = npy(1)
    assert [header_length(data[:size]) for size in (1, 6, 11)] == [None, None, None]
    assert header_length(data[:12]) is not None
    with pytest.raises(Refusal, match=r"no \.npy file"):
        header_length(b"\x93NUMPX")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"PK\x03\x04 and so on", r"a zip file \(.npz, or torch.save"),
        (b"\x89PNG\r\n\x1a\n----", "a PNG file"),
        (b"\xff\xd8\xff\xe0--------", "a JPEG file"),
        (b"\x80\x02}q\x00--------", "a pickle"),
        (bytes(64), "something else"),
        (b"\x93NUMPY\x04\x00" + bytes(60), "version 4.0"),
        (b"\x93NUMPY\x01\x01" + bytes(60), "version 1.1"),
        (b"\x93NUMPY\x02\x00" + struct.pack("<I", 1 << 31), f"more than {LONGEST_HEADER}"),
    ],
)
def test_other_files_are_refused(data: bytes, text: str) -> None:
    """Status 400, and what it is instead where that can be told; a huge header is refused before it is read."""
    with pytest.raises(Refusal, match=text) as caught:
        header_length(data)
    assert caught.value.status == 400


def headed(text: str) -> bytes:
    """A file with this text for a header."""
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode("latin-1")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{'descr': '|u1', 'fortran_order': False, 'shape': (1,)", "can't be read"),
        ("__import__('os').getcwd()", "can't be read"),
        ("[" * 3000, "can't be read"),
        ("", "can't be read"),
        ("{'descr': '|u1', 'fortran_order': False}", "has not the fields"),
        ("{'descr': '|u1', 'fortran_order': False, 'shape': (1,), 'x': 1}", "has not the fields"),
        ("{'descr': '|u1', 'fortran_order': 0, 'shape': (1,)}", "has not the fields"),
        ("[1]", "has not the fields"),
        ("{'descr': '|u1', 'fortran_order': False, 'shape': [1]}", "the shape"),
        ("{'descr': '|u1', 'fortran_order': False, 'shape': (-1,)}", "the shape"),
        ("{'descr': '|u1', 'fortran_order': False, 'shape': (True,)}", "the shape"),
        ("{'descr': '|u1', 'fortran_order': False, 'shape': (1.0,)}", "the shape"),
    ],
)
def test_malformed_headers_are_refused(text: str, error: str) -> None:
    """Status 400; nothing in a header is run."""
    with pytest.raises(Refusal, match=error) as caught:
        read(headed(text).ljust(12, b" "))
    assert caught.value.status == 400


@pytest.mark.parametrize("descr", ["'<f4'", "'|O'", "'|b1'", "'|i1'", "'<u2'", "[('a', '|u1')]", "None"])
def test_other_data_types_are_refused(descr: str) -> None:
    """Status 422: only unsigned bytes, so no pickle can come in, and floats are not taken for bytes."""
    with pytest.raises(Refusal, match=r"data type is .*: expected uint8") as caught:
        read(headed(f"{{'descr': {descr}, 'fortran_order': False, 'shape': (1,)}}"))
    assert caught.value.status == 422
