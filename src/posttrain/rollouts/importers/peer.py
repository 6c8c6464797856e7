# SPDX-License-Identifier: Apache-2.0
"""What is known about one tool's dump: its fields, and how its rows become groups."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, final

import msgspec
from msgspec import Raw

from posttrain.errors import describe
from posttrain.jsonl.lines import RowFault, RowLine
from posttrain.rollouts.columns import column_flag, missing_column
from posttrain.rollouts.grouping import Grouping
from posttrain.rollouts.opened import OpenRows

__all__ = ["Found", "Peer", "Reading", "decoded"]

T = TypeVar("T")

Found: TypeAlias = tuple[int, dict[str, Any] | RowFault, int]
"""Number of a row, the fields of it that are read, and the place behind it."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What of a dump's rows is read."""

    roles: Mapping[str, str]
    """What a field is (of `RolloutColumns`) to its name in the dump; fields that are not among them are not read."""
    group_by: tuple[str, ...]
    """The fields whose equal values make a group; empty where a group is a run of rows."""
    needs: tuple[str, ...]
    """Which of prompt and reference every row has to have."""
    render: str | None
    """Which text of a completion of messages counts; None: only that of one assistant message."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Every field that is read."""
        return tuple(dict.fromkeys((*self.roles.values(), *self.group_by)))

    def missing(self, present: Collection[str]) -> str | None:
        """The fault of a row, or of a whole table, that lacks fields which every row has to have."""
        faults = [
            missing_column(self.roles.get(role, role), present, f"set {column_flag(role)}")
            for role in ("completion", *self.needs)
            if self.roles.get(role) not in present
        ]
        faults += [missing_column(name, present, "set --group-by") for name in self.group_by if name not in present]
        return "; ".join(faults) or None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One tool's dump."""

    name: str
    """Value of ``--from``."""
    title: str
    fields: Mapping[str, str]
    """What a field is (of `RolloutColumns`) to its name in the dump; what is not among them the dump does not hold."""
    grouping: Grouping | None
    """How its rows become groups unless the user says otherwise; None: the user has to say."""
    ungrouped: str = ""
    """Why the user has to say, and what."""
    open: Callable[[Path, Reading], OpenRows]


def decoded(found: Iterable[Found], decode: Callable[[bytes], T]) -> Iterator[RowLine[T]]:
    """The fields of rows, as rows of JSON that are decoded like those of a file."""
    for number, row, place in found:
        if isinstance(row, RowFault):
            yield number, row, place, b""
        else:
            line = b""
            try:
                line = msgspec.json.encode(row)
                value: T | RowFault = decode(line)
            except (msgspec.DecodeError, TypeError, ValueError, RecursionError) as error:
                # A text with half a surrogate pair or bytes that are no UTF-8, or a value that JSON has no word for.
                value = RowFault(_unreadable(row) or f"can't be read: {error}")
            yield number, value, place, line


def _unreadable(row: dict[str, Any]) -> str | None:
    faults = []
    for name, value in row.items():
        try:
            msgspec.json.decode(msgspec.json.encode(value))
        except (msgspec.DecodeError, TypeError, ValueError, RecursionError) as error:
            shown = describe(bytes(value)) if isinstance(value, Raw) else describe(value)
            faults.append(f"field {name!r} can't be read: {error}: {shown}")
    return "; ".join(faults) or None
