# SPDX-License-Identifier: Apache-2.0
"""What counts as a number: real, finite, and not a bool."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any

from posttrain.errors import describe

__all__ = ["as_real", "why_not_real"]

_NUMERIC_KINDS = "fiu"
"""numpy's letters for floats, integers and unsigned integers; dates and durations are stored as integers too."""


def as_real(value: Any) -> float | None:
    """`value` as a Python float, or None when it is not one real finite number.

    Python, numpy and 0-d array or tensor scalars are numbers; bool, str, None, NaN, infinity, complex numbers, dates,
    masked values and arrays with a shape are not.
    """
    kind = type(value)
    if kind is float:
        return value if math.isfinite(value) else None
    if kind is bool or isinstance(value, str):
        return None
    if kind is not int and callable(item := getattr(value, "item", None)) and hasattr(value, "ndim"):
        return _as_real_scalar(value, item)
    if isinstance(value, numbers.Real):
        try:
            real = float(value)
        except OverflowError:
            return None
        return real if math.isfinite(real) else None
    return None


def _as_real_scalar(value: Any, item: Callable[[], Any]) -> float | None:
    """A numpy scalar or a 0-d array or tensor, without importing what made it."""
    kind = getattr(getattr(value, "dtype", None), "kind", "f")
    if kind not in _NUMERIC_KINDS or value.ndim != 0 or getattr(value, "mask", False):
        return None
    try:
        inner = item()
    except (RuntimeError, TypeError, ValueError):
        # A tensor without data (meta, fake) holds no number.
        return None
    return as_real(inner) if type(inner) in {int, float} else None


def why_not_real(value: Any) -> str:
    """The same verdict in words, with the fix, for a value that `as_real` refused."""
    if value is None:
        return "got None: a candidate that can't be scored is an error, never a number; raise instead"
    if isinstance(value, bool):
        return f"got {describe(value)}: write float(ok)"
    if isinstance(value, str):
        return f"got {describe(value)}: write float(value)"
    if isinstance(value, numbers.Real):
        return f"got {describe(value)}, which is not finite as a float"
    if getattr(value, "ndim", 0) != 0:
        return f"got {describe(value)}: one number per candidate, write float(value.item())"
    return f"got {describe(value)}"
