# SPDX-License-Identifier: Apache-2.0
"""A scale of ratings: its lowest and its highest."""

from __future__ import annotations

from math import isfinite
from typing import Final

from posttrain.errors import describe
from posttrain.frozen import Json

__all__ = ["number_schema", "scale_faults", "scale_words"]

_FARTHEST: Final = 1e9


def scale_faults(scale: object, *, whole: bool) -> list[str]:
    """What is wrong with a scale; empty when nothing is."""
    if not isinstance(scale, (tuple, list)) or len(scale) != 2:
        return [f"expected the lowest and the highest rating, got {describe(scale)}"]
    if not all(type(end) in (int, float) and isfinite(end) and abs(end) <= _FARTHEST for end in scale):
        return [f"expected two numbers within {_FARTHEST:g} of 0, got {describe(scale)}"]
    low, high = scale
    if not low < high:
        return [f"expected the lowest rating below the highest, got {describe(scale)}"]
    if whole and (low != int(low) or high != int(high)):
        return [f"expected whole numbers, since only they are ratings, got {describe(scale)}"]
    return []


def scale_words(scale: tuple[float, float], *, whole: bool) -> str:
    """The scale as a judge reads it."""
    kind = "a whole number" if whole else "a number"
    return f"{kind} from {scale[0]:.15g} to {scale[1]:.15g}"


def number_schema(scale: tuple[float, float], *, whole: bool) -> Json:
    """JSON schema of a rating."""
    if whole:
        return {"type": "integer", "minimum": int(scale[0]), "maximum": int(scale[1])}
    return {"type": "number", "minimum": scale[0], "maximum": scale[1]}
