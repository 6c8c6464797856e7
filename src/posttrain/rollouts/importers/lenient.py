# SPDX-License-Identifier: Apache-2.0
"""The fields of a line that Python's `json` wrote: it writes NaN and Infinity, which are no JSON, for floats."""

from __future__ import annotations

import json

import msgspec
from msgspec import Raw

__all__ = ["fields_of"]

_fields = msgspec.json.Decoder(dict[str, Raw]).decode


def fields_of(line: bytes) -> dict[str, Raw]:
    """Each field's JSON text. A metric of NaN does no harm; a field that is read and holds one is a fault when decoded.

    Raises:
        msgspec.DecodeError: the line is no JSON object.
        RecursionError: it is nested too deep.
    """
    try:
        return _fields(line)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        if b"NaN" not in line and b"Infinity" not in line:
            raise
        try:
            value = json.loads(line)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise
        return {name: Raw(json.dumps(each).encode()) for name, each in value.items()}
