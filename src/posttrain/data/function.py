# SPDX-License-Identifier: Apache-2.0
"""Rows that a function makes: tasks made on the fly, held in memory, the same each time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast, final

from msgspec import UNSET

from posttrain.data.columns import ColumnMapping, missing_column
from posttrain.data.gaps import Gaps
from posttrain.data.items import load_function
from posttrain.data.row import SourceRow
from posttrain.data.row_ids import SeenIds, id_fault, id_text, note_repeated
from posttrain.errors import RewardConfigError, RewardContractError, describe, listing, text_of
from posttrain.frozen import first_difference, freeze, thaw
from posttrain.jsonl.faults import Faults

__all__ = ["FunctionRows", "RowsFn"]

RowsFn: TypeAlias = Callable[[], Sequence[Mapping[str, Any]]]
"""Takes nothing and gives all rows, in an order that never changes."""

_KEY: Final = "the function of the rows"


@final
class FunctionRows:
    """The rows that a function gives, each a JSON mapping. Unmapped columns are preserved.

    Opening it calls the function twice: one that does not give the same rows both times is refused, since a run could
    not be repeated or resumed.

    Args:
        path: ``package.module:function``, or the function itself.
        columns: its columns.

    Raises:
        RewardConfigError: the function can't be found, raises, gives no rows or other ones each time, or no row has a
            column that was asked for.
        RewardContractError: rows are at fault, each named by its place, counted from 0.
    """

    def __init__(self, path: str | RowsFn, columns: ColumnMapping | None = None) -> None:
        function = cast("RowsFn", load_function(path, _KEY, "without arguments") if isinstance(path, str) else path)
        self.title = path if isinstance(path, str) else getattr(path, "__qualname__", type(path).__qualname__)
        self.columns = columns or ColumnMapping()
        self._rows = self._made(function)
        self._refuse_changing(function)
        names = dict.fromkeys(name for row in self._rows for name in row)
        self.column_names: Sequence[str] = tuple(names)
        self.gaps: dict[str, Gaps] = {"prompt": Gaps(), "reference": Gaps()}
        self._look()

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hexadecimal, of the rows as canonical JSON."""
        text = json.dumps([thaw(row) for row in self._rows], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def __len__(self) -> int:
        return len(self._rows)

    def place(self, index: int) -> str:
        """``row [7]``, counted from 0 as the list does."""
        return f"row [{index}]"

    def take(self, indices: Sequence[int]) -> list[SourceRow]:
        """The rows at these places, each counted from 0: fresh objects.

        Raises:
            IndexError: there is no such row.
        """
        if indices and not 0 <= min(indices) <= max(indices) < len(self):
            raise IndexError(f"{self.title} has the rows 0 to {len(self) - 1}, got {list(indices)}")
        taken = []
        for index in indices:
            row = thaw(self._rows[index])
            values = {role: row.pop(name, UNSET) for role, name in self.columns.roles().items()}
            taken.append(SourceRow(**values, representations=row))
        return taken

    def _made(self, function: RowsFn) -> list[Mapping[str, Any]]:
        try:
            found = function()
        except (Exception, SystemExit) as error:
            raise RewardConfigError(f"{_KEY}: {self.title} raised {type(error).__name__}: {text_of(error)}") from error
        if not isinstance(found, Sequence) or isinstance(found, (str, bytes)):
            raise RewardConfigError(f"{_KEY}: {self.title} has to return a list of rows, got {describe(found)}")
        if not found:
            raise RewardConfigError(f"{_KEY}: {self.title} gave no rows")
        rows: list[Mapping[str, Any]] = []
        faults = Faults()
        for index, row in enumerate(found):
            if not isinstance(row, Mapping):
                faults.add(index, self.place(index), f"has to be a mapping, got {describe(row)}")
                continue
            try:
                rows.append(cast("Mapping[str, Any]", freeze(dict(row), "row")))
            except RewardContractError as error:
                faults.add(index, self.place(index), " ".join(error.message.split()))
        if faults.total:
            raise faults.error(self.title)
        return rows

    def _refuse_changing(self, function: RowsFn) -> None:
        again = self._made(function)
        if len(again) != len(self._rows):
            raise RewardConfigError(
                f"{_KEY}: {self.title} has to give the same rows each time, but gave {len(self._rows)}, then "
                f"{len(again)}"
            )
        faults = [
            f"{self.place(index)}: {found}"
            for index, (first, second) in enumerate(zip(self._rows, again, strict=True))
            if (found := first_difference(first, second, "row")) is not None
        ]
        if faults:
            raise RewardConfigError(
                f"{_KEY}: {self.title} has to give the same rows each time; fix the seed of what it draws:\n"
                f"{listing(faults)}"
            )

    def _look(self) -> None:
        """Find the gaps, and everything that is wrong with the rows."""
        roles = self.columns.roles()
        absent = [role for role in self.columns.required() if roles[role] not in self.column_names]
        if absent:
            lines = [missing_column(self.columns, role, self.column_names) for role in absent]
            raise RewardConfigError(f"{self.title} lacks a column that was asked for:\n{listing(lines)}")
        faults, seen = Faults(), SeenIds()
        ids: list[tuple[int, str, str]] = []
        for index, row in enumerate(self._rows):
            for role in self.gaps:
                if row.get(roles[role]) is None:
                    self.gaps[role].add(index)
            if "row_id" not in roles:
                continue
            if (row_id := id_text(row.get(roles["row_id"]))) is None:
                faults.add(index, self.place(index), id_fault(roles["row_id"], row.get(roles["row_id"])))
            else:
                seen.add(row_id)
                ids.append((index, self.place(index), row_id))
        if suspects := seen.suspects():
            note_repeated(suspects, ids, roles["row_id"], faults)
        if faults.total:
            raise faults.error(self.title)
