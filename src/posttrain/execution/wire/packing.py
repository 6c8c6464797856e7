# SPDX-License-Identifier: Apache-2.0
"""Records to bytes and back, exactly: MessagePack where it can hold them, JSON text where it can't.

MessagePack is short and fast, but has no integer beyond 64 bits and no half of a surrogate pair, and a completion or a
reference may hold either. Such a record is written as JSON text in UTF-8 that lets lone surrogates through. The first
byte tells which of the two it is.
"""

from __future__ import annotations

import json
from typing import Any, Final, Generic, TypeVar, final

import msgspec

__all__ = ["Packing", "WireError"]

_MSGPACK: Final = 1
_JSON: Final = 2

T = TypeVar("T")


class WireError(ValueError):
    """Bytes that are not what the other side should have sent, or a record that can't be sent."""


@final
class Packing(Generic[T]):
    """Writes and reads records of one type.

    Args:
        kind: the type, of `msgspec` structs and built-in types.
        what: what an error calls such a record.
    """

    def __init__(self, kind: Any, what: str) -> None:
        self._kind = kind
        self._what = what
        self._encode_into = msgspec.msgpack.Encoder().encode_into
        self._decode = msgspec.msgpack.Decoder(kind).decode

    def pack(self, record: T) -> bytearray:
        """The record as bytes.

        Raises:
            WireError: it holds what is of no plain type, for example a tensor.
        """
        data = bytearray((_MSGPACK,))
        try:
            try:
                self._encode_into(record, data, 1)
            except (UnicodeEncodeError, OverflowError):
                text = json.dumps(
                    msgspec.to_builtins(record), ensure_ascii=False, allow_nan=False, separators=(",", ":")
                )
                data = bytearray((_JSON,)) + text.encode("utf-8", "surrogatepass")
        except (TypeError, ValueError, RecursionError) as error:
            raise WireError(f"{self._what} can't be sent to another process: {error}") from error
        return data

    def unpack(self, data: bytes | bytearray | memoryview) -> T:
        """The record of these bytes.

        Raises:
            WireError: they are not one.
        """
        view = memoryview(data)
        form = view[0] if view else 0
        if form not in {_MSGPACK, _JSON}:
            raise WireError(f"{self._what} can't be read: it begins with {bytes(view[:8])!r}")
        record: T
        try:
            if form == _MSGPACK:
                record = self._decode(view[1:])
            else:
                record = msgspec.convert(json.loads(str(view[1:], "utf-8", "surrogatepass")), self._kind)
        except (ValueError, RecursionError) as error:
            raise WireError(f"{self._what} can't be read: {error}") from error
        return record
