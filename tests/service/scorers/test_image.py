# SPDX-License-Identifier: Apache-2.0
"""Scorers of images, on arrays so small that their scores are worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from posttrain.service.scorers.image import brightness, colourfulness, contrast, sharpness


def grey(rows: list[list[int]]) -> NDArray[np.uint8]:
    """An image whose three channels are these."""
    return np.repeat(np.array(rows, np.uint8)[:, :, None], 3, axis=2)


def one(*pixels: tuple[int, int, int]) -> NDArray[np.uint8]:
    """An image of one row."""
    return np.array([pixels], np.uint8)


def test_brightness_is_the_share_of_white() -> None:
    """Black is 0, white 1, a fifth of white 0.2; red, green and blue weigh 0.299, 0.587 and 0.114."""
    assert brightness(grey([[0]]), {}) == 0.0
    assert brightness(grey([[255, 255]]), {}) == 1.0
    assert brightness(grey([[51]]), {}) == 0.2
    assert [brightness(one(px), {}) for px in ((255, 0, 0), (0, 255, 0), (0, 0, 255))] == [0.299, 0.587, 0.114]
    # (255 * 299 + 255 * 114) / 2 pixels / 255,000
    assert brightness(one((255, 0, 0), (0, 0, 255)), {}) == 0.2065


def test_contrast_is_the_spread_of_luma() -> None:
    """A flat image has none; half black and half white has all there is, 0.5; 0, 0, 0, 204 give 51 sqrt(3) * ..."""
    assert contrast(grey([[7, 7], [7, 7]]), {}) == 0.0
    assert contrast(grey([[0, 255]]), {}) == 0.5
    # Mean 51; squares 3 * 51^2 + 153^2 = 31,212; over 4: 7803; root: 51 sqrt(3); over 255: sqrt(3) / 5.
    assert contrast(grey([[0, 0], [0, 204]]), {}) == pytest.approx(math.sqrt(3) / 5, rel=1e-15)


def test_sharpness_is_the_variance_of_the_laplacian() -> None:
    """A gradient has none; a point of 10 in a field of 0 has Laplacians -40 and four times 10 among nine."""
    assert sharpness(grey([[0, 1, 2, 3]] * 4), {}) == 0.0
    field = np.zeros((5, 5), int)
    field[2, 2] = 10
    # Inner 3 x 3: -40 once, 10 four times, 0 four times. Mean 0; mean of squares (1600 + 400) / 9.
    assert sharpness(grey(field.tolist()), {}) == pytest.approx(2000 / 9, rel=1e-15)


@pytest.mark.parametrize("shape", [(2, 9, 3), (9, 2, 3), (1, 1, 3)])
def test_sharpness_needs_an_inner_pixel(shape: tuple[int, ...]) -> None:
    """Of an image that has none there is no score."""
    with pytest.raises(ValueError, match=f"at least 3 x 3 pixels, got {shape[0]} x {shape[1]}"):
        sharpness(np.zeros(shape, np.uint8), {})


def test_colourfulness_follows_the_paper() -> None:
    """Grey has none; one red pixel has only means; red beside blue has spreads too."""
    assert colourfulness(grey([[3, 200]]), {}) == 0.0
    # rg = 255, yb = 127.5, no spread: 0.3 * sqrt(255^2 + 127.5^2) = 0.3 * 127.5 * sqrt(5).
    assert colourfulness(one((255, 0, 0)), {}) == pytest.approx(0.3 * 127.5 * math.sqrt(5), rel=1e-15)
    # rg: 255, 0: mean 127.5, spread 127.5. yb: 127.5, -255: mean -63.75, spread 191.25.
    expected = math.hypot(127.5, 191.25) + 0.3 * math.hypot(127.5, 63.75)
    assert colourfulness(one((255, 0, 0), (0, 0, 255)), {}) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("scorer", [brightness, contrast, sharpness, colourfulness])
def test_memory_order_and_row_order_are_of_no_account(scorer: object) -> None:
    """Fortran order gives the same number to the bit, and so does the image upside down: sums are exact."""
    image = np.random.default_rng(0).integers(0, 256, (11, 7, 3), np.uint8)
    assert callable(scorer)
    value = scorer(image, {})
    assert scorer(np.asfortranarray(image), {}) == value
    assert scorer(image[::-1], {}) == value
