# SPDX-License-Identifier: Apache-2.0
"""Plain data as bytes and back, bit for bit, without the power to run code.

Pickle carries every plain Python value exactly: ints of any size, each bit of a float, lone surrogates in a text,
dicts in their order. Reading refuses to look up any global, so nothing but plain values can come out of it.
"""

from __future__ import annotations

import io
import pickle
from typing import Any, Never, TypeAlias, final

__all__ = ["Plain", "from_bytes", "to_bytes"]

Plain: TypeAlias = "bool | int | float | str | bytes | list[Plain] | tuple[Plain, ...] | dict[str, Plain] | None"


@final
class _PlainReader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Never:
        raise pickle.UnpicklingError(f"expected plain data, got a reference to {module}.{name}")


def to_bytes(value: Plain) -> bytes:
    """The bytes of a plain value; sharing inside it is kept."""
    return pickle.dumps(value, protocol=5)


def from_bytes(data: bytes) -> Any:
    """The plain value back.

    Raises:
        pickle.UnpicklingError: the bytes hold anything else.
    """
    return _PlainReader(io.BytesIO(data)).load()
