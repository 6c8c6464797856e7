# SPDX-License-Identifier: Apache-2.0
"""TRL's completions tables: ``completions/completions_00010.parquet``, written with ``log_completions=True``."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self, TypeVar, final

from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.jsonl.lines import RowFault, RowLine
from posttrain.rollouts.importers.messages import Unrendered, completion_text
from posttrain.rollouts.importers.peer import Found, Peer, Reading, decoded
from posttrain.rollouts.position import Position

__all__ = ["TRL", "parquet_module"]

T = TypeVar("T")

_BATCH: Final = 256
"""Rows that are in memory at a time."""
_BUFFER: Final = 1 << 18
"""Bytes of a column that are read at a time; without it, a whole row group's would be."""


@final
class TrlTable:
    """An open table; the place behind a row is the number of rows before it.

    Raises:
        RewardConfigError: the file can't be read as Parquet, or pyarrow is not installed.
    """

    def __init__(self, path: Path, reading: Reading) -> None:
        self._path = path
        self._reading = reading
        parquet = parquet_module(path)
        arrow = importlib.import_module("pyarrow")
        try:
            self._table = parquet.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False)
        except (OSError, arrow.ArrowException) as error:
            raise RewardConfigError(f"{path} can't be read as a Parquet table: {error}") from error
        self._error: type[Exception] = arrow.ArrowException
        self._names: list[str] = self._table.schema_arrow.names
        self._count: int = self._table.metadata.num_rows
        self._bytes = path.stat().st_size
        self._taken = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._table.close()

    @property
    def consumed(self) -> int:
        """The file's bytes by the share of its rows that were read."""
        return self._bytes * self._taken // max(1, self._count)

    def rows(self, decode: Callable[[bytes], T], start: Position, distinct: Sequence[str]) -> Iterator[RowLine[T]]:
        """See `OpenRows`.

        Raises:
            RewardContractError: the table lacks columns, has one twice, or ends before `start`.
        """
        twice = [name for name in distinct if self._names.count(name) > 1]
        fault = f"has the column {twice[0]!r} twice" if twice else self._reading.missing(self._names)
        if fault:
            raise RewardContractError(f"{self._path.name}: {fault}")
        if start.offset > self._count:
            raise RewardContractError(
                f"{self._path} has {self._count} rows, and the earlier run had come to row "
                f"{start.offset}: the file has changed since; start over with --restart"
            )
        return decoded(self._found(start), decode)

    def _found(self, start: Position) -> Iterator[Found]:
        self._taken = 0
        columns = [name for name in self._reading.fields if name in self._names]
        batches = self._table.iter_batches(batch_size=_BATCH, columns=columns, use_threads=False)
        while True:
            try:
                batch = next(batches, None)
            except (OSError, self._error) as error:
                yield self._taken + 1, RowFault(f"can't be read: {error}"), self._taken
                return
            if batch is None:
                return
            if self._taken + batch.num_rows <= start.offset:
                self._taken += batch.num_rows
                continue
            for row in batch.to_pylist():
                self._taken += 1
                if self._taken > start.offset:
                    yield self._taken, self._row(row), self._taken

    def _row(self, row: dict[str, Any]) -> dict[str, Any] | RowFault:
        completion, prompt = self._reading.roles["completion"], self._reading.roles.get("prompt")
        try:
            row[completion] = completion_text(row[completion], completion, self._reading.render)
        except Unrendered as fault:
            return RowFault(str(fault))
        if prompt in row and isinstance(row[prompt], list):
            row[prompt] = [_without_nulls(each) if isinstance(each, Mapping) else each for each in row[prompt]]
        return row


def _without_nulls(message: Mapping[str, Any]) -> dict[str, Any]:
    """A table gives each message the keys of all of them; those that it does not have are null."""
    return {key: value for key, value in message.items() if value is not None}


def parquet_module(path: Path) -> Any:
    """The module `pyarrow.parquet`.

    Raises:
        RewardConfigError: it is not installed, and the table at `path` needs it.
    """
    try:
        return importlib.import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise RewardConfigError(f"{path} is Parquet, which needs pyarrow: pip install 'posttrain[report]'") from error


TRL: Final = Peer(
    name="trl",
    title="TRL's completions table",
    fields={"prompt": "prompt", "completion": "completion"},
    grouping=None,
    ungrouped="the table has no group ids: say --group-by consecutive:N, with the trainer's num_generations (in tables "
    "of an evaluation its num_generations_eval), or --group-by step,prompt where no step draws a prompt twice",
    open=TrlTable,
)
