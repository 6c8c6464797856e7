# SPDX-License-Identifier: Apache-2.0
"""Single precision with the standard library alone, and the transform of a score in it."""

from __future__ import annotations

import math
import struct
from typing import Final

from posttrain.errors import RewardContractError

__all__ = ["fp32", "transformed_score"]

_SINGLE: Final = struct.Struct("<f")


def fp32(value: float) -> float:
    """The single-precision number nearest to `value` (ties to even); infinite beyond its range."""
    try:
        return float(_SINGLE.unpack(_SINGLE.pack(value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def transformed_score(raw: float, clip: tuple[float, float] | None, scale: float) -> float:
    """Clamp, then scale, each in single precision: what an fp32 tensor of one element would give.

    Args:
        raw: the service's score, finite.
        clip: lowest and highest value; None: no clamp.
        scale: factor.

    Raises:
        RewardContractError: `raw` is not finite, or the result is beyond the range of single precision.
    """
    if not math.isfinite(raw):
        raise RewardContractError(f"the service's score has to be finite, got {raw!r}")
    score = fp32(raw)
    if clip is not None:
        low, high = fp32(clip[0]), fp32(clip[1])
        score = min(max(score, low), high)
    # A product of two singles is exact in double precision, so this rounds once, as the hardware does.
    result = fp32(score * fp32(scale))
    if not math.isfinite(result):
        raise RewardContractError(
            f"the service's score {raw!r} times score_scale {scale!r} is beyond the range of single precision; "
            "set score_clip"
        )
    return result
