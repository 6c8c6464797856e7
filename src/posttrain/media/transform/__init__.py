# SPDX-License-Identifier: Apache-2.0
"""From a decoded tensor to the bytes of a uint8 `.npy` file, in single precision and one pass."""

from posttrain.media.transform.decoded import check_decoded, sample_shape
from posttrain.media.transform.npy import npy_header
from posttrain.media.transform.pixels import write_pixels

__all__ = ["check_decoded", "npy_header", "sample_shape", "write_pixels"]
