# SPDX-License-Identifier: Apache-2.0
"""The rows of a scored file: read as they are, or refused with every fault."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.report.rows import scored_rows

Written = Callable[..., Path]

GOOD = {"trajectory_id": "a/0", "group_id": "a", "reward": {"x": 1, "final": 1.0}, "advantage": 0.0}


def test_a_row_of_a_scored_file_and_one_of_a_run_are_both_rows(written: Written) -> None:
    """What is left out has its default, and a whole number in a reward is a float."""
    full = {
        **GOOD,
        "trajectory_id": "a/1",
        "step": 3,
        "row_id": "r",
        "prompt": [1],
        "reference": {"k": None},
        "completion": "",
        "finish_reason": "length",
        "completion_token_count": 0,
    }
    (_, first), (number, second) = scored_rows(written("scored.jsonl", [GOOD, full]))
    assert (first.step, first.row_id, first.completion, first.reward) == (0, None, None, {"x": 1.0, "final": 1.0})
    assert number == 2
    assert {name: getattr(second, name) for name in full} == full


def test_compressed_files_are_read_by_their_suffix(written: Written) -> None:
    """A gzip file gives the rows of the plain one."""
    path = written("scored.jsonl.gz", gzip.compress(json.dumps(GOOD).encode()))
    assert [row.trajectory_id for _, row in scored_rows(path)] == ["a/0"]


def test_half_a_surrogate_pair_is_kept(written: Written) -> None:
    """What a model wrote is read, though it is no Unicode."""
    ((_, row),) = scored_rows(written("scored.jsonl", json.dumps({**GOOD, "completion": "a\ud800b\u2028\x00"})))
    assert row.completion == "a\ud800b\u2028\x00"


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"reward": {"x": 1.0}}, "its reward has no 'final', only 'x'"),
        ({"reward": {"final": "1"}}, "Expected `float`, got `str`"),
        ({"reward": {"final": True}}, "Expected `float`, got `bool`"),
        ({"reward": {}, "advantage": 0.5}, "it has an advantage and no reward"),
        ({"dropped_because": "x: y"}, "dropped because of 'x: y', and yet it has a reward"),
        ({"trajectory_id": ""}, "its trajectory_id or group_id is empty"),
        ({"completion_token_count": -1}, "completion_token_count: expected at least 0, got -1"),
    ],
)
def test_a_row_at_fault_is_named_with_its_number(written: Written, change: dict[str, Any], fault: str) -> None:
    """The faults of all rows come in one error, and the good rows are not in it."""
    path = written("scored.jsonl", [GOOD, {**GOOD, "trajectory_id": "a/1", **change}, GOOD, {**GOOD, **change}])
    with pytest.raises(RewardContractError, match="2 faults") as caught:
        list(scored_rows(path))
    lines = str(caught.value).splitlines()[1:]
    assert [line.split(":")[0] for line in lines] == ["  row 2", "  row 4"]
    assert all(fault in line for line in lines)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("text", ["plain", "half \\ud800"])
def test_what_is_no_finite_number_is_no_reward(written: Written, number: str, text: str) -> None:
    """NaN and infinity are refused on both ways through the reader."""
    line = json.dumps({**GOOD, "completion": "TEXT", "advantage": 7.5}).replace("TEXT", text).replace("7.5", number)
    with pytest.raises(RewardContractError, match="row 1"):
        list(scored_rows(written("scored.jsonl", line)))


def test_a_key_that_stands_twice_is_a_fault(written: Written) -> None:
    """Nobody can say which advantage counts."""
    line = json.dumps(GOOD)[:-1] + ', "advantage": 1.0}'
    with pytest.raises(RewardContractError, match="has the key 'advantage' more than once"):
        list(scored_rows(written("scored.jsonl", line)))


def test_a_missing_file_is_a_set_up_error(tmp_path: Path) -> None:
    """The file is named."""
    with pytest.raises(RewardConfigError, match=r"can't read .*none\.jsonl"):
        list(scored_rows(tmp_path / "none.jsonl"))


def _parquet(path: Path, rows: list[dict[str, Any]], reward: Any, prompt_kind: bytes | None = None) -> Path:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed: pip install pyarrow")
    fields = [
        pa.field("trajectory_id", pa.string()),
        pa.field("group_id", pa.string()),
        pa.field("step", pa.int64()),
        pa.field("prompt", pa.string(), metadata=None if prompt_kind is None else {b"posttrain": prompt_kind}),
        pa.field("completion", pa.string()),
        pa.field("reward", reward(pa)),
        pa.field("advantage", pa.float64()),
        pa.field("dropped_because", pa.string()),
        pa.field("something_else", pa.int64()),
    ]
    parquet.write_table(pa.Table.from_pylist(rows, schema=pa.schema(fields)), path)
    return path


def _struct(pa: Any) -> Any:
    return pa.struct([pa.field(name, pa.float64()) for name in ("x", "y", "final")])


def _map(pa: Any) -> Any:
    return pa.map_(pa.string(), pa.float64())


def test_parquet_gives_the_rows_of_jsonl(tmp_path: Path) -> None:
    """Terms that a row does not have are left out, a dropped row has none, JSON inputs are read by their mark."""
    rows = [
        {**GOOD, "step": 2, "prompt": '[{"role":"user"}]', "completion": "c", "reward": {"x": 1.0, "final": 1.0}},
        {"trajectory_id": "b/0", "group_id": "b", "step": 2, "reward": None, "dropped_because": "judge: E"},
    ]
    (_, first), (_, second) = scored_rows(_parquet(tmp_path / "s.parquet", rows, _struct, b"json"))
    assert (first.reward, first.advantage, first.step) == ({"x": 1.0, "final": 1.0}, 0.0, 2)
    assert (first.prompt, first.completion) == ([{"role": "user"}], "c")
    assert (second.reward, second.advantage, second.dropped_because) == ({}, None, "judge: E")


def test_parquet_with_a_map_and_plain_texts(tmp_path: Path) -> None:
    """A reward may be a map column, and without a mark a text is a text."""
    rows = [{**GOOD, "prompt": '["no JSON"]', "reward": [("x", 1.0), ("final", 1.0)]}]
    ((_, row),) = scored_rows(_parquet(tmp_path / "s.parquet", rows, _map))
    assert (row.reward, row.prompt) == ({"x": 1.0, "final": 1.0}, '["no JSON"]')


def test_a_nan_in_parquet_is_refused(tmp_path: Path) -> None:
    """Parquet can hold what JSON can't."""
    rows = [{**GOOD, "reward": {"x": float("nan"), "final": 1.0}}]
    with pytest.raises(RewardContractError, match="row 1: x: expected a finite number, got nan"):
        list(scored_rows(_parquet(tmp_path / "s.parquet", rows, _struct)))


def test_a_damaged_parquet_file_is_a_set_up_error(written: Written) -> None:
    """A file that only claims to be Parquet is named."""
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install pyarrow")
    with pytest.raises(RewardConfigError, match=r"can't read .*s\.parquet"):
        list(scored_rows(written("s.parquet", "no parquet at all")))
