# SPDX-License-Identifier: Apache-2.0
"""A step's rows as Parquet: the same columns, `reward` as a struct of its terms, null where a group was dropped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from posttrain.errors import RewardContractError
from posttrain.runs.records import RecordedCandidate
from posttrain.runs.sinks.files import refusals
from posttrain.runs.sinks.installed import installed

__all__ = ["parquet_bytes", "parquet_rows"]

_INPUTS: Final = ("prompt", "reference")
_BATCH: Final = 1024
"""Rows that are written and read together: a reader holds no more of them."""
_KIND: Final = b"posttrain"
"""Key of a column's metadata; ``json`` or ``text`` says how an input is written."""


def parquet_bytes(rows: Sequence[RecordedCandidate], terms: Sequence[str]) -> bytes:
    """The file of a step.

    A column of inputs is plain text where every row has a text or none, else JSON text; its metadata says which.

    Args:
        rows: inputs are JSON text (`msgspec.Raw`) there.
        terms: the names in ``reward``, ``final`` apart.

    Raises:
        RewardConfigError: pyarrow is not installed.
    """
    pa, pq = _arrow()
    columns: dict[str, list[Any]] = {
        name: [getattr(row, name) for row in rows] for name in RecordedCandidate.__struct_fields__
    }
    columns["reward"] = [row.reward or None for row in rows]
    kinds = {}
    for name in _INPUTS:
        columns[name], kinds[name] = _texts(columns[name])
    schema = pa.schema([_field(pa, name, kinds.get(name), terms) for name in columns])
    table = pa.Table.from_pydict(columns, schema=schema)
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer, compression="zstd", row_group_size=_BATCH)
    content: bytes = buffer.getvalue().to_pybytes()
    return content


def parquet_rows(path: Path) -> Iterator[RecordedCandidate]:
    """Read such a file, a batch of rows at a time.

    Raises:
        RewardConfigError: pyarrow is not installed, or the file can't be read.
        RewardContractError: the file is no such file.
    """
    pa, pq = _arrow()
    try:
        with refusals(path, "read"), pq.ParquetFile(path) as file:
            schema = file.schema_arrow
            as_json = [name for name in _INPUTS if _is_json(schema, name)]
            for batch in file.iter_batches(batch_size=_BATCH):
                yield from (_row(record, as_json) for record in batch.to_pylist())
    except (pa.ArrowException, msgspec.DecodeError) as error:
        raise RewardContractError(f"{path} is no file of scored candidates: {error}") from error


def _row(record: dict[str, Any], as_json: list[str]) -> RecordedCandidate:
    for name in as_json:
        if record[name] is not None:
            record[name] = msgspec.json.decode(record[name])
    record["reward"] = {} if record.get("reward") is None else record["reward"]
    return msgspec.convert(record, RecordedCandidate)


def _texts(values: list[msgspec.Raw | None]) -> tuple[list[str | None], bytes]:
    """Inputs as they stand in their column, and how that is."""
    encoded = [None if value is None else bytes(value) for value in values]
    if all(value is None or value[:1] == b'"' for value in encoded):
        return [None if value is None else msgspec.json.decode(value, type=str) for value in encoded], b"text"
    return [None if value is None else value.decode() for value in encoded], b"json"


def _field(pa: Any, name: str, kind: bytes | None, terms: Sequence[str]) -> Any:
    if name == "reward":
        return pa.field(name, pa.struct([pa.field(term, pa.float64()) for term in (*terms, "final")]))
    if name in {"step", "completion_token_count"}:
        return pa.field(name, pa.int64())
    if name == "advantage":
        return pa.field(name, pa.float64())
    return pa.field(name, pa.string(), metadata=None if kind is None else {_KIND: kind})


def _is_json(schema: Any, name: str) -> bool:
    place = schema.get_field_index(name)
    return place >= 0 and (schema.field(place).metadata or {}).get(_KIND) == b"json"


def _arrow() -> tuple[Any, Any]:
    found = [
        installed(name, purpose="Parquet", install="'posttrain[report]'") for name in ("pyarrow", "pyarrow.parquet")
    ]
    return found[0], found[1]
