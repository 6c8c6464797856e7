# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a line that is no JSON object, said so that its author can mend it."""

from __future__ import annotations

import json
import re
from typing import Final

import msgspec

from posttrain.errors import describe

__all__ = ["no_row", "no_utf8"]

_ONE_PER_LINE: Final = "the file has one JSON object per line"
_AT_BYTE: Final = re.compile(r"^(?:JSON is malformed: )?(.*) \(byte ([0-9]+)\)$", re.DOTALL)
_AROUND: Final = 20
_MAGIC: Final = {
    b"\x1f\x8b": "is gzip data: let the file's name end in .gz",
    b"\x28\xb5\x2f\xfd": "is zstd data: let the file's name end in .zst",
    b"\xff\xfe": "is UTF-16: convert the file to UTF-8",
    b"\xfe\xff": "is UTF-16: convert the file to UTF-8",
}
_NO_NAN: Final = "; JSON has no NaN and no Infinity: write null, or leave the key out"
_CONSTANTS: Final = "; JSON has null, true and false: write rows with json.dumps"
_HINTS: Final = {
    b"NaN": _NO_NAN,
    b"Infinity": _NO_NAN,
    b"'": "; JSON strings stand in double quotes: write rows with json.dumps",
    b"None": _CONSTANTS,
    b"True": _CONSTANTS,
    b"False": _CONSTANTS,
}

_any_value = msgspec.json.Decoder().decode


def no_row(line: bytes, error: Exception, *, is_first: bool, parquet: str) -> str:
    """The fault of a line that the decoder refused, as words that follow "row 7: ".

    Args:
        line: the whole line.
        error: what the decoder raised.
        is_first: whether it is the file's first line, which gives away the whole file's format.
        parquet: what to do with a file that is Parquet.
    """
    known = _MAGIC | {b"PAR1": f"is Parquet data: {parquet}"} if is_first else {}
    other_format = next((text for magic, text in known.items() if line.startswith(magic)), None)
    if (fault := other_format or no_utf8(line)) is not None:
        return fault
    if isinstance(error, msgspec.ValidationError):
        try:
            # The first surprise ended the reading; what follows may be worse.
            value = _any_value(line)
        except (msgspec.DecodeError, RecursionError) as second:
            error = second
        else:
            return _no_object(value, error, is_first=is_first)
    if isinstance(error, RecursionError):
        return "is nested too deep to be read"
    if isinstance(error, msgspec.ValidationError):
        return f"holds a value that can't be read: {error}"
    return _malformed(line, str(error))


def no_utf8(line: bytes) -> str | None:
    """The fault of a line that is no UTF-8; None: it is."""
    try:
        line.decode()
    except UnicodeDecodeError as wrong:
        return f"is not UTF-8 at byte {wrong.start}: {_near(line, wrong.start)}; convert the file to UTF-8"
    return None


def _no_object(value: object, error: Exception, *, is_first: bool) -> str:
    if isinstance(value, dict):
        return f"holds a value that can't be read: {error}"
    array = "; from one array, jq -c '.[]' makes such a file" if is_first and isinstance(value, list) else ""
    return f"expected a JSON object, got {describe(value)}: {_ONE_PER_LINE}{array}"


def _malformed(line: bytes, message: str) -> str:
    if _is_looser_json(line):
        return "holds half of a surrogate pair such as \\ud800, which is no character: take it out of the text"
    found = _AT_BYTE.match(message)
    at = int(found[2]) if found else len(line)
    # The decoder takes the line's own end for a wrong character where it expects more of a text.
    if found is None or not line[at:].strip(b" \t\r\n"):
        return (
            f"is no complete JSON: it ends early; was the file cut off? {_ONE_PER_LINE[0].upper()}{_ONE_PER_LINE[1:]}, "
            "with no bare line break in a text"
        )
    hint = next((hint for start, hint in _HINTS.items() if line.startswith(start, at)), "")
    return f"is no valid JSON: {found[1]} at byte {at}: {_near(line, at)}{hint}"


def _is_looser_json(line: bytes) -> bool:
    """Whether the standard library would read it: it lets through, and keeps, half of a pair written as an escape."""
    if b"\\ud" not in line.lower():
        return False
    try:
        json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _near(line: bytes, at: int) -> str:
    return repr(line[max(0, at - _AROUND) : at + _AROUND].decode(errors="replace").strip("\r\n"))
