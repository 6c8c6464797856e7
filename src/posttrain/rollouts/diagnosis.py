# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a line that is no JSON object, said so that its author can mend it."""

from __future__ import annotations

import re

import msgspec

from posttrain.errors import describe

__all__ = ["no_json"]

_ONE_PER_LINE = "a rollout file has one JSON object per line"
_AT_BYTE = re.compile(r"^(?:JSON is malformed: )?(.*) \(byte ([0-9]+)\)$", re.DOTALL)
_ENDS_EARLY = "Input data was truncated"
_AROUND = 20
_MAGIC = {
    b"\x1f\x8b": "is gzip data: let the file's name end in .gz",
    b"\x28\xb5\x2f\xfd": "is zstd data: let the file's name end in .zst",
    b"PAR1": f"is Parquet data: convert it, {_ONE_PER_LINE}",
    b"\xff\xfe": "is UTF-16: convert the file to UTF-8",
    b"\xfe\xff": "is UTF-16: convert the file to UTF-8",
}


def no_json(line: bytes, error: Exception, *, is_first: bool) -> str:
    """The fault of a line, as words that follow "row 7: ".

    Args:
        line: the whole line.
        error: what the decoder raised.
        is_first: whether it is the file's first line, which gives away the whole file's format.
    """
    if is_first:
        for magic, text in _MAGIC.items():
            if line.startswith(magic):
                return text
    try:
        line.decode()
    except UnicodeDecodeError as wrong:
        return f"is not UTF-8 at byte {wrong.start}: {_near(line, wrong.start)}; convert the file to UTF-8"
    if isinstance(error, RecursionError):
        return "is nested too deep to be read"
    if isinstance(error, msgspec.ValidationError):
        return _no_object(line, error, is_first=is_first)
    return _malformed(line, str(error), is_first=is_first)


def _no_object(line: bytes, error: msgspec.ValidationError, *, is_first: bool) -> str:
    # The decoder stops at the first thing that it did not expect; what follows may be worse.
    try:
        value = msgspec.json.decode(line)
    except msgspec.ValidationError as second:
        error, value = second, {}
    except msgspec.DecodeError as second:
        return _malformed(line, str(second), is_first=is_first)
    except RecursionError:
        return "is nested too deep to be read"
    if isinstance(value, dict):
        return f"holds a value that can't be read: {error}"
    array = "; from one array, jq -c '.[]' makes such a file" if is_first and isinstance(value, list) else ""
    return f"expected a JSON object, got {describe(value)}: {_ONE_PER_LINE}{array}"


def _malformed(line: bytes, message: str, *, is_first: bool) -> str:
    found = _AT_BYTE.match(message)
    # The decoder takes the line's own end for a wrong character where it expects more of a text.
    if message == _ENDS_EARLY or (found and not line[int(found[2]) :].strip()):
        if is_first:
            return f"is no complete JSON: it ends early; {_ONE_PER_LINE}"
        return "is no complete JSON: it ends early; was the file cut off, or does a text hold a bare line break?"
    if found is None:
        return f"is no valid JSON: {message}"
    what, at = found[1], int(found[2])
    return f"is no valid JSON: {what} at byte {at}: {_near(line, at)}{_fix(line, at)}"


def _fix(line: bytes, at: int) -> str:
    if line.startswith((b"NaN", b"Infinity"), at):
        return "; JSON has no NaN and no Infinity: write null, or leave the key out"
    if line.startswith(b"'", at):
        return "; JSON strings stand in double quotes: write rows with json.dumps"
    if line.startswith((b"None", b"True", b"False"), at):
        return "; JSON has null, true and false: write rows with json.dumps"
    return ""


def _near(line: bytes, at: int) -> str:
    text = line[max(0, at - _AROUND) : at + _AROUND].decode(errors="replace").strip("\r\n")
    return repr(text)
