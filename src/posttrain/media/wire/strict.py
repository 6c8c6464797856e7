# SPDX-License-Identifier: Apache-2.0
"""JSON of an outside service, read so that it has one meaning or none."""

from __future__ import annotations

import json
from typing import Any, NoReturn

__all__ = ["NotJsonError", "read_json"]


class NotJsonError(Exception):
    """Why a body is no JSON that can be relied on."""


def read_json(body: bytes) -> Any:
    """The one value that `body` holds.

    Raises:
        NotJsonError: it is empty, no UTF-8, no JSON; an object names a key twice; it holds NaN or Infinity, which are
            no JSON; or it nests or counts beyond what the parser takes.
    """
    if not body.strip():
        raise NotJsonError("the body is empty")
    try:
        return json.loads(body.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_constant)
    except UnicodeDecodeError as error:
        raise NotJsonError(f"no UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise NotJsonError("nested too deeply") from None
    except ValueError as error:
        # A JSONDecodeError, or an integer of more digits than Python converts.
        raise NotJsonError(str(error)) from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        # Which one stays out of it: a service may echo a credential anywhere, and only a quotation is masked.
        raise NotJsonError("a key stands twice in one object")
    return value


def _constant(name: str) -> NoReturn:
    raise NotJsonError(f"{name} is no JSON number")
