# SPDX-License-Identifier: Apache-2.0
"""One line of a JSONL file, read strictly: one JSON object in UTF-8 in which no mapped key stands twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast, final

import msgspec
from msgspec import UNSET

from posttrain.data.columns import CONFIG_KEYS
from posttrain.errors import RewardConfigError, describe
from posttrain.jsonl.diagnosis import no_row, no_utf8
from posttrain.jsonl.keys import UNREADABLE, RepeatedKeys, is_readable

__all__ = ["MappedRow", "RowFault", "StrictRows"]

_ROLES = ("prompt", "reference", "row_id")
_PARQUET = "read it with rl.data.source=hf"


class RowFault(Exception):  # noqa: N818  # internal signal: the loader collects these
    """A line is no row; the text follows its number in an error."""


class MappedRow(Protocol):
    """The mapped columns of a row, UNSET where it has no such column; the others are skipped without being built."""

    prompt: Any
    reference: Any
    row_id: Any


@final
class StrictRows:
    """Reads the rows of one file.

    Args:
        roles: canonical field to the column that holds it.

    Raises:
        RewardConfigError: a column's name can't be read.
    """

    __slots__ = ("_encode", "_repeated", "read")

    read: Callable[[bytes], MappedRow]
    """Read a line that was checked before; raises what `msgspec` raises."""

    def __init__(self, roles: Mapping[str, str]) -> None:
        if wrong := [role for role, name in roles.items() if not is_readable(name)]:
            keys = " and ".join(CONFIG_KEYS[role] for role in wrong)
            raise RewardConfigError(
                f"{keys}: a JSONL column's name can't hold {UNREADABLE}, got "
                f"{', '.join(describe(roles[role]) for role in wrong)}"
            )
        self._repeated = RepeatedKeys(roles.values())
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
            raise RowFault(no_row(line, error, is_first=is_first, parquet=_PARQUET)) from error
        # The decoder does not look into the texts that it skips.
        fault = (None if line.isascii() else no_utf8(line)) or self._repeated.fault(line)
        if fault is not None:
            raise RowFault(fault)
        return row

    def text(self, row: MappedRow) -> bytes:
        """The row as JSON again, with its mapped columns only."""
        return self._encode(row)
