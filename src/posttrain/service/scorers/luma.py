# SPDX-License-Identifier: Apache-2.0
"""Luma: how bright a pixel looks. In whole thousandths, so that sums are exact and their order is of no account."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Bytes: TypeAlias = NDArray[np.uint8]
    Whole: TypeAlias = NDArray[np.int32]
else:
    Bytes = Whole = Any

__all__ = ["SCALE", "Bytes", "Whole", "luma", "mean", "variance"]

SCALE = 1000
"""Parts of one step of luma."""


def luma(red: Bytes, green: Bytes, blue: Bytes) -> Whole:
    """``1000 Y = 299 R + 587 G + 114 B``, 0 to 255,000 (ITU-R BT.601), int32 of the planes' shape [H, W]."""
    import numpy as np

    # One plane at a time, in place: a frame costs two planes of int32, not six.
    total: Whole = np.multiply(red, 299, dtype=np.int32)
    total += np.multiply(green, 587, dtype=np.int32)
    total += np.multiply(blue, 114, dtype=np.int32)
    return total


def mean(values: Whole) -> float:
    """Mean of whole numbers, rounded once."""
    import numpy as np

    return int(values.sum(dtype=np.int64)) / values.size


def variance(values: Whole) -> float:
    """Population variance of whole numbers [H, W], from exact sums, rounded once.

    A square may be up to 2^47, a row up to 2^16 long.
    """
    import numpy as np

    count, total, squares = values.size, int(values.sum(dtype=np.int64)), 0
    for row in values:
        wide = row.astype(np.int64)
        squares += int(np.dot(wide, wide))
    return (count * squares - total * total) / (count * count)
