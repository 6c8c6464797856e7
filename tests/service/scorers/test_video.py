# SPDX-License-Identifier: Apache-2.0
"""Scorers of videos, on arrays so small that their scores are worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from posttrain.service.scorers.video import motion, temporal_smoothness


def clip(*greys: int) -> NDArray[np.uint8]:
    """A video of one pixel, [3, T, 1, 1]."""
    return np.broadcast_to(np.array(greys, np.uint8).reshape(1, -1, 1, 1), (3, len(greys), 1, 1)).copy()


def test_motion_is_the_mean_change_from_frame_to_frame() -> None:
    """A still has none; black, white, black has all there is; 0, 51, 51 changes by a fifth and by nothing."""
    assert motion(clip(9, 9, 9), {}) == 0.0
    assert motion(clip(0, 255, 0), {}) == 1.0
    assert motion(clip(0, 51, 51), {}) == pytest.approx(0.1, rel=1e-15)


def test_motion_is_averaged_over_pixels() -> None:
    """Of two pixels one turns from black to white: half of the largest change."""
    video = np.zeros((3, 2, 1, 2), np.uint8)
    video[:, 1, 0, 1] = 255
    assert motion(video, {}) == 0.5


def test_smoothness_falls_with_uneven_change() -> None:
    """A still and an even fade are 1; flicker between black and white is 0; one step of 51 in the middle is 0.9."""
    assert temporal_smoothness(clip(9, 9, 9), {}) == 1.0
    assert temporal_smoothness(clip(0, 10, 20, 30), {}) == 1.0
    assert temporal_smoothness(clip(0, 255, 0, 255), {}) == 0.0
    # Second differences of 0, 0, 51, 51: 51 and -51; mean 51 of 510.
    assert temporal_smoothness(clip(0, 0, 51, 51), {}) == pytest.approx(0.9, rel=1e-15)


@pytest.mark.parametrize(("scorer", "least"), [(motion, 2), (temporal_smoothness, 3)])
def test_too_few_frames_have_no_score(scorer: object, least: int) -> None:
    """There is nothing to compare, so there is no number either."""
    assert callable(scorer)
    with pytest.raises(ValueError, match=f"at least {least} frames, got {least - 1}"):
        scorer(clip(*range(least - 1)), {})
    assert scorer(clip(*[5] * least), {}) in {0.0, 1.0}
