# SPDX-License-Identifier: Apache-2.0
"""JSON read strictly: UTF-8, no NaN, no Infinity, no key twice. What Python lets pass, others read otherwise."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

__all__ = ["NotStrictJsonError", "strict_json"]


class NotStrictJsonError(ValueError):
    """The bytes are not JSON as the standard has it; the message says where."""


def strict_json(data: bytes | bytearray) -> Any:
    """The value of a JSON text.

    Raises:
        NotStrictJsonError: it is not UTF-8, not JSON, holds NaN or Infinity, has a key twice, or is nested too deep.
    """
    try:
        return json.loads(
            data.decode("utf-8"), object_pairs_hook=_object, parse_constant=_refuse_constant, parse_float=_finite
        )
    except UnicodeDecodeError as error:
        raise NotStrictJsonError(f"not UTF-8 (byte {error.start})") from error
    except RecursionError as error:
        raise NotStrictJsonError("nested too deep") from error
    except NotStrictJsonError:
        raise
    except ValueError as error:
        raise NotStrictJsonError(f"not JSON: {error}") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]  # add gives None
        raise NotStrictJsonError(f"the key {twice[:80]!r} stands twice in one object")
    return value


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise NotStrictJsonError(f"{text[:40]} is too large for a float")
    return number


def _refuse_constant(text: str) -> NoReturn:
    raise NotStrictJsonError(f"{text} is no JSON number")
