# SPDX-License-Identifier: Apache-2.0
"""Rows of a Hugging Face dataset: mapped columns under canonical names, the unmapped ones as representations."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast, final

from msgspec import UNSET

from posttrain.data.columns import ColumnMapping, missing_column
from posttrain.data.gaps import Gaps
from posttrain.data.items import ItemsFn, difference, map_row
from posttrain.data.row import SourceRow
from posttrain.data.row_ids import SeenIds, id_fault, id_text, note_repeated
from posttrain.errors import RewardConfigError, RewardContractError, describe, listing
from posttrain.jsonl.faults import Faults

__all__ = ["HfRows", "datasets_module"]

_STRETCH: Final = 1024
_TWICE: Final = 16


@final
class HfRows:
    """The rows of a `datasets.Dataset`.

    Opening it finds every row without a prompt or reference, and with `items_fn` or an id column it looks at each row.

    Args:
        dataset: a dataset with random access: one split, not streamed.
        columns: its columns.
        items_fn: rewrites each row before its columns are mapped; called anew whenever a row is taken.
        title: what to call the dataset in errors.

    Raises:
        RewardConfigError: it is no such dataset, has no rows, or has no such column.
        RewardContractError: rows are at fault, each named by its place, counted from 0 as the dataset does.
    """

    def __init__(
        self,
        dataset: Any,
        columns: ColumnMapping | None = None,
        *,
        items_fn: ItemsFn | None = None,
        title: str = "the dataset",
    ) -> None:
        self.title = title
        self.columns = columns or ColumnMapping()
        self.column_names: Sequence[str] = _column_names(dataset, title)
        self.gaps: dict[str, Gaps] = {"prompt": Gaps(), "reference": Gaps()}
        self._items_fn = items_fn
        self._printed = str(getattr(dataset, "_fingerprint", ""))
        # Plain Python values, whatever format the dataset was left in.
        self._dataset = dataset.with_format(None)
        roles = self.columns.roles()
        absent = [role for role in self.columns.required() if roles[role] not in self.column_names]
        if absent:
            lines = [missing_column(self.columns, role, self.column_names) for role in absent]
            raise RewardConfigError(f"{title} lacks a column that was asked for:\n{listing(lines)}")
        if not len(self):
            raise RewardConfigError(f"{title} has no rows")
        self._look()

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the dataset's own fingerprint and the name of `items_fn`.

        It is not that of the content: the same rows, prepared elsewhere, may have another.
        """
        function = self._items_fn
        name = function and f"{function.__module__}:{getattr(function, '__qualname__', type(function).__qualname__)}"
        return hashlib.sha256(json.dumps([self._printed, name]).encode()).hexdigest()

    def __len__(self) -> int:
        return len(self._dataset)

    def place(self, index: int) -> str:
        """``row [7]``, counted from 0 as the dataset does."""
        return f"row [{index}]"

    def take(self, indices: Sequence[int]) -> list[SourceRow]:
        """The rows at these places, each counted from 0.

        Raises:
            IndexError: there is no such row.
            RewardContractError: `items_fn` failed, naming every row on which it did.
        """
        taken, faults = [], Faults()
        for index, row in zip(indices, _source_rows(self._dataset, indices), strict=True):
            try:
                taken.append(self._mapped(row))
            except RewardContractError as error:
                faults.add(index, self.place(index), error.message, error.__cause__)
        if faults.total:
            raise faults.error(self.title)
        return taken

    def _mapped(self, row: dict[str, Any]) -> SourceRow:
        if self._items_fn is not None:
            row = dict(map_row(self._items_fn, row))
        values = {role: row.pop(name, UNSET) for role, name in self.columns.roles().items()}
        return SourceRow(**values, representations=row)

    def _look(self) -> None:
        """Find the gaps and everything that is wrong with the rows, in one pass over those columns that matter."""
        dataset, faults, ids = self._dataset, Faults(), SeenIds()
        if self._items_fn is None:
            if self.columns.roles()["reference"] not in self.column_names:
                self.gaps["reference"] = Gaps.everywhere(len(self))
            columns = self._doubtful()
            if not columns:
                return
            dataset = dataset.select_columns(columns)
        else:
            self._refuse_changing()
        seen = set(dataset.column_names)
        roles = {role: name for role, name in self.columns.roles().items() if name in seen}
        for index, row in self._walk(dataset, faults):
            for role in roles.keys() & self.gaps.keys():
                if getattr(row, role) is None:
                    self.gaps[role].add(index)
            if "row_id" in roles and (row_id := id_text(row.row_id)) is not None:
                ids.add(row_id)
            elif "row_id" in roles:
                faults.add(index, self.place(index), id_fault(roles["row_id"], row.row_id))
        if suspects := ids.suspects():
            known = ((index, self.place(index), id_text(row.row_id)) for index, row in self._walk(dataset, Faults()))
            ids_again = ((index, place, row_id) for index, place, row_id in known if row_id is not None)
            note_repeated(suspects, ids_again, roles["row_id"], faults)
        if faults.total:
            raise faults.error(self.title)

    def _doubtful(self) -> list[str]:
        """The mapped columns that are to be looked at row by row: ids, and those with a null somewhere."""
        # Counts the nulls of the whole table; of a selection of its rows there may be fewer.
        table = self._dataset.data
        roles = {role: name for role, name in self.columns.roles().items() if name in self.column_names}
        return [name for role, name in roles.items() if role == "row_id" or table.column(name).null_count]

    def _walk(self, dataset: Any, faults: Faults) -> Iterator[tuple[int, SourceRow]]:
        """Every row of the dataset with its place; those that can't be mapped are noted instead."""
        for start in range(0, len(dataset), _STRETCH):
            indices = range(start, min(start + _STRETCH, len(dataset)))
            for index, row in zip(indices, _source_rows(dataset, indices), strict=True):
                try:
                    mapped = self._mapped(row)
                except RewardContractError as error:
                    faults.add(index, self.place(index), error.message, error.__cause__)
                else:
                    yield index, mapped

    def _refuse_changing(self) -> None:
        """Map the first rows twice: a map that is not deterministic mostly gives itself away."""
        function, faults = cast("ItemsFn", self._items_fn), Faults()
        for index in range(min(_TWICE, len(self))):
            try:
                first, second = (map_row(function, self._dataset[index]) for _ in range(2))
            except RewardContractError:
                continue  # the pass over all rows will name it
            if (found := difference(first, second)) is not None:
                faults.add(index, self.place(index), f"items_fn has to be deterministic, but called twice {found}")
        if faults.total:
            raise faults.error(self.title)


def _source_rows(dataset: Any, indices: Sequence[int]) -> Iterator[dict[str, Any]]:
    columns = dataset[list(indices)]
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))


def datasets_module(path: str) -> Any:
    """The module `datasets`.

    Raises:
        RewardConfigError: it is not installed, and the source at `path` needs it.
    """
    try:
        return importlib.import_module("datasets")
    except ModuleNotFoundError as error:
        raise RewardConfigError(
            f"{path} is an hf source, which needs datasets: pip install 'posttrain[data]'"
        ) from error


def _column_names(dataset: Any, title: str) -> list[str]:
    """The names of the columns of what has to be a dataset with random access."""
    datasets = datasets_module(title)
    if isinstance(dataset, datasets.DatasetDict):
        raise RewardConfigError(f"{title} has the splits {', '.join(map(str, dataset))}: choose one with rl.data.split")
    if not isinstance(dataset, datasets.Dataset):
        streamed = isinstance(dataset, (datasets.IterableDataset, datasets.IterableDatasetDict))
        got = f"{describe(type(dataset))}{'; load it without streaming' if streamed else ''}"
        raise RewardConfigError(f"{title}: expected a datasets.Dataset, whose rows can be read in any order, got {got}")
    return list(dataset.column_names)
