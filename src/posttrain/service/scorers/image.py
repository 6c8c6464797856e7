# SPDX-License-Identifier: Apache-2.0
"""Scorers of one image, uint8 [H, W, 3]. They measure plain properties of pixels, not taste."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from posttrain.service.scorers.luma import SCALE, Bytes, Whole, luma, mean, variance

__all__ = ["brightness", "colourfulness", "contrast", "sharpness"]


def brightness(array: Bytes, info: Mapping[str, Any]) -> float:
    """Mean luma: ``mean(Y) / 255``, 0 (black) to 1 (white).

    `Y` is the luma of ITU-R BT.601, see `posttrain.service.scorers.luma`.
    """
    del info
    return mean(_luma(array)) / (255 * SCALE)


def contrast(array: Bytes, info: Mapping[str, Any]) -> float:
    """RMS contrast: ``std(Y) / 255`` (population), 0 (flat) to 0.5 (half black, half white).

    Source: E. Peli, "Contrast in complex images", J. Opt. Soc. Am. A 7 (1990).
    """
    del info
    return math.sqrt(variance(_luma(array))) / (255 * SCALE)


def sharpness(array: Bytes, info: Mapping[str, Any]) -> float:
    """Variance of the Laplacian: ``var(Y * [[0, 1, 0], [1, -4, 1], [0, 1, 0]])`` over the inner pixels, in luma².

    0 (flat, or one even gradient) to 1,040,400 (= 1020²); photographs in focus lie in the hundreds and above. Source:
    J. Pech-Pacheco et al., "Diatom autofocusing in brightfield microscopy", ICPR 2000.

    Raises:
        ValueError: the image has no inner pixel, a side is below 3.
    """
    del info
    if min(array.shape[:2]) < 3:
        raise ValueError(f"sharpness needs an image of at least 3 x 3 pixels, got {array.shape[0]} x {array.shape[1]}")
    y = _luma(array)
    laplacian = y[:-2, 1:-1] + y[2:, 1:-1]
    laplacian += y[1:-1, :-2]
    laplacian += y[1:-1, 2:]
    laplacian -= 4 * y[1:-1, 1:-1]
    return variance(laplacian) / SCALE**2


def colourfulness(array: Bytes, info: Mapping[str, Any]) -> float:
    """Colourfulness ``M = sqrt(var(rg) + var(yb)) + 0.3 sqrt(mean(rg)² + mean(yb)²)``, population variances.

    ``rg = R - G`` and ``yb = (R + G) / 2 - B``. 0 (grey) to below 470; the source calls 15 slightly, 45 quite and 109
    extremely colourful. Source: D. Hasler and S. Süsstrunk, "Measuring colourfulness in natural images", SPIE 5007
    (2003), the metric M3 of equation 3.
    """
    del info
    import numpy as np

    red, green, blue = (array[:, :, at].astype(np.int32) for at in range(3))
    red_green = red - green
    # Twice the value, which is whole.
    yellow_blue = red + green - 2 * blue
    spread = math.sqrt(variance(red_green) + variance(yellow_blue) / 4)
    return spread + 0.3 * math.hypot(mean(red_green), mean(yellow_blue) / 2)


def _luma(array: Bytes) -> Whole:
    return luma(array[:, :, 0], array[:, :, 1], array[:, :, 2])
