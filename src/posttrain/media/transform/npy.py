# SPDX-License-Identifier: Apache-2.0
"""The header of a `.npy` file."""

from __future__ import annotations

from io import BytesIO

__all__ = ["npy_header"]


def npy_header(shape: tuple[int, ...]) -> bytes:
    """What ``numpy.save(..., allow_pickle=False)`` writes in front of a C-ordered uint8 array of this shape."""
    from numpy.lib import format as npy

    header = BytesIO()
    npy.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": shape})
    return header.getvalue()
