# SPDX-License-Identifier: Apache-2.0
"""The parts of a verdict: exactly the declared keys, and values of exactly the declared kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any, Final

from posttrain.errors import describe
from posttrain.judges.endpoint import JudgeReplyError

__all__ = ["number_in", "text_of_key", "whole_number_in", "with_exactly"]

_LISTED: Final = 8


def with_exactly(verdict: Mapping[str, Any], keys: Iterable[str]) -> Mapping[str, Any]:
    """The verdict itself, when it has these keys and no other, none of them null.

    Raises:
        JudgeReplyError: naming every key that is missing, null or not asked for.
    """
    wanted = tuple(keys)
    faults = [f"{key!r} is missing" for key in wanted if key not in verdict]
    faults += [f"{key!r} is null" for key in wanted if key in verdict and verdict[key] is None]
    faults += [f"{describe(key)} was not asked for" for key in verdict if key not in wanted]
    if faults:
        more = f"; and {len(faults) - _LISTED} more" if len(faults) > _LISTED else ""
        due = f"{len(wanted)} keys are due, each exactly once" if len(wanted) > 1 else f"only {wanted[0]!r} is due"
        raise JudgeReplyError("missing", f"{'; '.join(faults[:_LISTED])}{more}: {due}")
    return verdict


def number_in(key: str, value: object, scale: tuple[float, float]) -> float:
    """A JSON number inside the scale, its ends included; a bool or a text is none.

    Raises:
        JudgeReplyError: it is anything else.
    """
    low, high = scale
    if type(value) is not float and type(value) is not int:
        raise JudgeReplyError(
            "unparsable", f"{key!r}: expected a number from {low:g} to {high:g}, got {describe(value)}"
        )
    if (type(value) is float and not isfinite(value)) or not low <= value <= high:
        raise JudgeReplyError(
            "off_scale", f"{key!r}: expected a number from {low:g} to {high:g}, got {describe(value)}"
        )
    return float(value) + 0.0  # one zero: JSON has another, -0.0


def whole_number_in(key: str, value: object, scale: tuple[float, float]) -> float:
    """The same, and whole; 2.0 is, as JSON does not tell it from 2.

    Raises:
        JudgeReplyError: it is anything else.
    """
    number = number_in(key, value, scale)
    if not number.is_integer():
        raise JudgeReplyError("off_scale", f"{key!r}: expected a whole number, got {describe(value)}")
    return number


def text_of_key(key: str, value: object) -> str:
    """A text.

    Raises:
        JudgeReplyError: it is anything else.
    """
    if not isinstance(value, str):
        raise JudgeReplyError("unparsable", f"{key!r}: expected text, got {describe(value)}")
    return value
