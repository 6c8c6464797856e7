# SPDX-License-Identifier: Apache-2.0
"""The rows of one scored file, JSONL or Parquet, each checked: no NaN gets in, nothing stands for a missing score."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

import msgspec

from posttrain.errors import RewardConfigError
from posttrain.jsonl.faults import Faults
from posttrain.jsonl.lines import RowFault, read_rows
from posttrain.jsonl.streams import RowStream
from posttrain.runs.records import RecordedCandidate
from posttrain.runs.sinks.installed import installed

__all__ = ["NumberedRow", "scored_rows"]

NumberedRow: TypeAlias = tuple[int, RecordedCandidate]
"""Number of the row, counted from 1, and the row."""

_BATCH: Final = 1024
_KEYS: Final = tuple(RecordedCandidate.__struct_fields__)
_decode_line = msgspec.json.Decoder(RecordedCandidate).decode


def scored_rows(path: Path) -> Iterator[NumberedRow]:
    """The candidates of a scored file, in order.

    When a row is at fault, no further one comes, the rest of the file is only checked, and one error names all.

    Args:
        path: ``.parquet``; anything else is read as JSONL, plain or compressed by its suffix.

    Raises:
        RewardConfigError: the file can't be opened, or is Parquet and pyarrow is not installed.
        RewardContractError: rows are at fault.
    """
    faults = Faults()
    found = _parquet_rows(path) if path.suffix.lower() == ".parquet" else _json_rows(path)
    for number, row in found:
        fault = row.text if isinstance(row, RowFault) else _row_fault(row)
        if fault is not None:
            faults.add_row(number, fault)
        elif not faults and not isinstance(row, RowFault):
            yield number, row
    if faults:
        raise faults.error(path.name)


def _json_rows(path: Path) -> Iterator[tuple[int, RecordedCandidate | RowFault]]:
    with RowStream(path) as stream:
        for number, row, _, _ in read_rows(stream, _decode, distinct=_KEYS):
            yield number, row


def _decode(line: bytes) -> RecordedCandidate:
    try:
        return _decode_line(line)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError as error:
        # Half a surrogate pair is no Unicode but is JSON, and models do write it: what they wrote is shown.
        try:
            plain = json.loads(line, parse_constant=_no_constant)
        except ValueError:
            raise error from None
        return msgspec.convert(plain, RecordedCandidate)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _parquet_rows(path: Path) -> Iterator[tuple[int, RecordedCandidate | RowFault]]:
    pa = installed("pyarrow", purpose=f"{path.name}: Parquet", install="'posttrain[report]'")
    parquet = installed("pyarrow.parquet", purpose=f"{path.name}: Parquet", install="'posttrain[report]'")
    try:
        with parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
            columns = [name for name in schema.names if name in _KEYS]
            as_json = [name for name in columns if (schema.field(name).metadata or {}).get(b"posttrain") == b"json"]
            batches = (batch.to_pylist() for batch in file.iter_batches(batch_size=_BATCH, columns=columns))
            for number, record in enumerate(chain.from_iterable(batches), 1):
                yield number, _from_parquet(record, as_json)
    except (OSError, pa.ArrowException) as error:
        raise RewardConfigError(f"can't read {path}: {error}") from error


def _from_parquet(record: dict[str, Any], as_json: list[str]) -> RecordedCandidate | RowFault:
    found = {name: value for name, value in record.items() if value is not None}
    reward = found.get("reward", {})
    # A map column comes as pairs; in a struct column a term that this row does not have is null.
    pairs = reward.items() if isinstance(reward, dict) else reward
    try:
        found.update((name, json.loads(found[name])) for name in as_json if name in found)
        found["reward"] = {term: value for term, value in pairs if value is not None}
        return msgspec.convert({"advantage": None, **found}, RecordedCandidate)
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        return RowFault(str(error))


def _row_fault(row: RecordedCandidate) -> str | None:
    for name, value in (*row.reward.items(), ("advantage", row.advantage)):
        if value is not None and not math.isfinite(value):
            return f"{name}: expected a finite number, got {value!r}"
    if row.dropped_because is not None and (row.reward or row.advantage is not None):
        return f"dropped because of {row.dropped_because!r}, and yet it has a reward or an advantage"
    if row.reward and "final" not in row.reward:
        return f"its reward has no 'final', only {', '.join(map(repr, row.reward))}; score the rollouts again"
    if not row.reward and row.advantage is not None:
        return "it has an advantage and no reward"
    if not row.trajectory_id or not row.group_id:
        return "its trajectory_id or group_id is empty"
    count = row.completion_token_count
    return f"completion_token_count: expected at least 0, got {count}" if count is not None and count < 0 else None
