# SPDX-License-Identifier: Apache-2.0
"""One line of a JSONL file, read strictly: one JSON object in UTF-8 in which no mapped key stands twice."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast, final

import msgspec
from msgspec import UNSET, Raw

from posttrain.data.columns import CONFIG_KEYS
from posttrain.errors import RewardConfigError, describe

__all__ = ["MappedRow", "RowFault", "StrictRows", "keys_of"]

_ROLES = ("prompt", "reference", "row_id")
_ONE_PER_LINE = "the file has one JSON object per line"
_MAGIC = {
    b"\x1f\x8b": "is gzip data: let the file's name end in .gz",
    b"\x28\xb5\x2f\xfd": "is zstd data: let the file's name end in .zst",
    b"PAR1": "is Parquet data: read it with rl.data.source=hf",
    b"\xff\xfe": "is UTF-16: convert the file to UTF-8",
    b"\xfe\xff": "is UTF-16: convert the file to UTF-8",
}
_HINTS = {
    b"NaN": "; JSON has no NaN and no Infinity: write null, or leave the key out",
    b"Infinity": "; JSON has no NaN and no Infinity: write null, or leave the key out",
    b"'": "; JSON strings stand in double quotes: write rows with json.dumps",
    b"None": "; JSON has null, true and false: write rows with json.dumps",
    b"True": "; JSON has null, true and false: write rows with json.dumps",
    b"False": "; JSON has null, true and false: write rows with json.dumps",
}
_UNUSABLE = re.compile('["\\\\\x00-\x1f\ud800-\udfff]')
_AT_BYTE = "(byte "
_AROUND = 20


class RowFault(Exception):  # noqa: N818  # internal signal: the loader collects these
    """A line is no row; the text follows its number in an error."""


class MappedRow(Protocol):
    """The mapped columns of a row, UNSET where it has no such column; the others are skipped without being built."""

    prompt: Any
    reference: Any
    row_id: Any


class _Key(str):
    """A key that equals itself only, so that a dict keeps each of two that read the same."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


_every_key = msgspec.json.Decoder(dict[_Key, Raw], dec_hook=lambda _, key: _Key(key)).decode
_any_value = msgspec.json.Decoder().decode


@final
class StrictRows:
    """Reads the rows of one file.

    Args:
        roles: canonical field to the column that holds it.

    Raises:
        RewardConfigError: a column's name can't be read.
    """

    __slots__ = ("_encode", "_names", "_quoted", "read")

    read: Callable[[bytes], MappedRow]
    """Read a line that was checked before; raises what `msgspec` raises."""

    def __init__(self, roles: Mapping[str, str]) -> None:
        if wrong := [role for role, name in roles.items() if _UNUSABLE.search(name)]:
            keys = " and ".join(CONFIG_KEYS[role] for role in wrong)
            raise RewardConfigError(
                f"{keys}: a JSONL column's name can't hold a quote, a backslash or a control character, got "
                f"{', '.join(describe(roles[role]) for role in wrong)}"
            )
        self._names = frozenset(roles.values())
        self._quoted = [msgspec.json.encode(name) for name in roles.values()]
        fields: list[tuple[str, Any, Any]] = [(role, Any, UNSET) for role in roles]
        row_type = msgspec.defstruct(
            "MappedRow", fields, rename=dict(roles), namespace={role: UNSET for role in _ROLES if role not in roles}
        )
        self.read = cast("Callable[[bytes], MappedRow]", msgspec.json.Decoder(row_type).decode)
        self._encode = msgspec.json.Encoder().encode

    def check(self, line: bytes, *, is_first: bool = False) -> MappedRow:
        """The row of a line that nobody has looked at yet.

        Args:
            line: the whole line.
            is_first: whether it is the file's first line, which gives away the format of the whole file.

        Raises:
            RowFault: it is no JSON object, is no UTF-8, or has a mapped key twice.
        """
        try:
            row = self.read(line)
        except (msgspec.DecodeError, RecursionError) as error:
            raise RowFault(_no_row(line, error, is_first=is_first)) from error
        if not line.isascii():
            # The decoder does not look into the texts that it skips.
            _check_utf8(line)
        # A key may be spelled with escapes, and then the count of its plain spelling says nothing.
        if b"\\u" in line or b"\\/" in line or any(line.count(name) > 1 for name in self._quoted):
            self._check_keys(line)
        return row

    def text(self, row: MappedRow) -> bytes:
        """The row as JSON again, with its mapped columns only."""
        return self._encode(row)

    def _check_keys(self, line: bytes) -> None:
        # Of two equal keys the reader silently takes the last; JSON leaves open which counts.
        counts = Counter(str.__str__(key) for key in _every_key(line))
        twice = sorted(name for name in self._names if counts[name] > 1)
        if twice:
            names = ", ".join(map(repr, twice))
            raise RowFault(f"has the key {names} more than once, so that it is open which counts; keep one")


def keys_of(line: bytes) -> list[str]:
    """The keys of a line that was checked, each once."""
    return list(dict.fromkeys(str.__str__(key) for key in _every_key(line)))


def _check_utf8(line: bytes) -> None:
    try:
        line.decode()
    except UnicodeDecodeError as wrong:
        near = line[max(0, wrong.start - _AROUND) : wrong.start + _AROUND].decode(errors="replace")
        raise RowFault(f"is not UTF-8 at byte {wrong.start}: {near!r}; convert the file to UTF-8") from wrong


def _no_row(line: bytes, error: Exception, *, is_first: bool) -> str:
    """The words for a line that the decoder refused."""
    if is_first and (found := [text for magic, text in _MAGIC.items() if line.startswith(magic)]):
        return found[0]
    _check_utf8(line)
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


def _no_object(value: Any, error: Exception, *, is_first: bool) -> str:
    if isinstance(value, dict):
        return f"holds a value that can't be read: {error}"
    array = "; from one array, jq -c '.[]' makes such a file" if is_first and isinstance(value, list) else ""
    return f"expected a JSON object, got {describe(value)}: {_ONE_PER_LINE}{array}"


def _malformed(line: bytes, message: str) -> str:
    if _is_looser_json(line):
        return "holds half of a surrogate pair such as \\ud800, which is no character: take it out of the text"
    what, _, rest = message.removeprefix("JSON is malformed: ").partition(f" {_AT_BYTE}")
    at = int(rest.rstrip(")")) if rest.rstrip(")").isdigit() else len(line)
    if not line[at:].strip(b" \t\r\n"):
        return f"is no complete JSON: it ends early; {_ONE_PER_LINE}, with no bare line break in a text"
    near = line[max(0, at - _AROUND) : at + _AROUND].decode(errors="replace")
    hint = next((hint for start, hint in _HINTS.items() if line.startswith(start, at)), "")
    return f"is no valid JSON: {what} at byte {at}: {near!r}{hint}"


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
