# SPDX-License-Identifier: Apache-2.0
"""Scorers of one video, uint8 [3, T, H, W]. A few frames are held at a time, however long the video is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from posttrain.service.scorers.luma import SCALE, Bytes, Whole, luma, mean

__all__ = ["motion", "temporal_smoothness"]


def motion(array: Bytes, info: Mapping[str, Any]) -> float:
    """Mean change of luma from frame to frame: ``mean |Y[t+1] - Y[t]| / 255``, 0 (still) to 1 (black, white, black).

    Per frame, not per second: the frame rate does not enter. The frame difference is that of the temporal information
    of ITU-T P.910, of which the mean size is taken here instead of the largest spread.

    Raises:
        ValueError: the video has fewer than 2 frames.
    """
    del info
    import numpy as np

    frames = _frames(array, least=2, name="motion")
    before, total, count = next(frames), 0.0, 0
    for frame in frames:
        total += mean(np.abs(frame - before))
        count += 1
        before = frame
    return total / count / (255 * SCALE)


def temporal_smoothness(array: Bytes, info: Mapping[str, Any]) -> float:
    """How evenly luma changes: ``1 - mean |Y[t+1] - 2 Y[t] + Y[t-1]| / 510``, 1 (even) to 0 (black, white, black).

    The mean size of the second difference in time, which is 0 where a pixel stays as it is or changes at an even pace
    and at most 510. Flicker lowers it, an even fade does not. The measure is ours.

    Raises:
        ValueError: the video has fewer than 3 frames.
    """
    del info
    import numpy as np

    frames = _frames(array, least=3, name="temporal_smoothness")
    first, second, total, count = next(frames), next(frames), 0.0, 0
    for third in frames:
        total += mean(np.abs(third - 2 * second + first))
        count += 1
        first, second = second, third
    return 1.0 - total / count / (510 * SCALE)


def _frames(array: Bytes, *, least: int, name: str) -> Iterator[Whole]:
    """Luma of each frame, [H, W]."""
    count = array.shape[1]
    if count < least:
        raise ValueError(f"{name} needs a video of at least {least} frames, got {count}")
    return (luma(array[0, at], array[1, at], array[2, at]) for at in range(count))
