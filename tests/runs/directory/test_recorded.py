# SPDX-License-Identifier: Apache-2.0
"""Reading a run: beside its writer, in flat memory, and never taking a damaged row for a score."""

from __future__ import annotations

import hashlib
import json
import math
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.runs.directory import RecordedRun, RecordSettings, RunDirectory, tally
from posttrain.runs.directory.parquet import parquet_bytes
from posttrain.runs.directory.scored import encoded_rows
from posttrain.runs.records import RecordedCandidate
from strategies import finite_floats

Begin = Callable[..., RunDirectory]


def test_a_reader_beside_the_writer(begin: Begin, batch: Any) -> None:
    """Whatever is recorded is seen at once; lines of metrics of one step are taken together."""
    with begin() as run:
        found = RecordedRun(run.path)
        assert (list(found.candidates()), found.tally().scored) == ([], 0)
        for step in (2, 10):
            run.record_step(step, batch.trajectories, batch.outcome)
            run.metrics.write(step, {"train/x": step / 2})
            assert found.steps[-1] == step
        run.metrics.write(2, {"val/x": 7.0})
        assert found.metrics() == {2: {"train/x": 1.0, "val/x": 7.0}, 10: {"train/x": 5.0}}
        assert [line.step for line in found.metric_lines()] == [2, 10, 2]
        assert [each.step for each in found.candidates()] == [2] * 4 + [10] * 4
        assert [each.step for each in found.candidates(10)] == [10] * 4
        assert (found.tally(2).scored, found.tally().scored) == (2, 4)
        assert found.last_step == 10


def test_a_step_that_is_not_there_is_told(begin: Begin, batch: Any) -> None:
    """With what is there."""
    with begin() as run:
        found = RecordedRun(run.path)
        with pytest.raises(RewardConfigError, match=r"has no candidates of step 4; it has none$"):
            list(found.candidates(4))
        for step in (3, 8):
            run.record_step(step, batch.trajectories, batch.outcome)
        with pytest.raises(RewardConfigError, match=r"has no candidates of step 4; it has 2 steps, 3 to 8$"):
            list(found.candidates(4))


SCORED = {"trajectory_id": "t", "group_id": "g", "step": 1, "reward": {"final": 1.0}, "advantage": 0.0}


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({**SCORED, "reward": {"final": None}}, "Expected `float`, got `null`"),
        ({**SCORED, "reward": {"final": "1"}}, "Expected `float`, got `str`"),
        ({**SCORED, "reward": {}}, "t: it has no reward['final'], and nothing says that it was dropped"),
        ({**SCORED, "reward": {"task": 1.0}}, "t: it has no reward['final'], and nothing says that it was dropped"),
        ({**SCORED, "advantage": None}, "t: it has no advantage, and nothing says that it was dropped"),
        ({**SCORED, "dropped_because": "x"}, "t: it was dropped, and has a reward or an advantage all the same"),
        (
            {**SCORED, "reward": {}, "dropped_because": "x"},
            "t: it was dropped, and has a reward or an advantage all the same",
        ),
        ({**SCORED, "step": 2}, "t: it is of step 2"),
        ({name: value for name, value in SCORED.items() if name != "reward"}, "missing required field `reward`"),
        ({name: value for name, value in SCORED.items() if name != "advantage"}, "missing required field `advantage`"),
        ([], "Expected `object`, got `array`"),
    ],
)
def test_a_row_that_is_neither_scored_nor_dropped_is_an_error(begin: Begin, row: Any, why: str) -> None:
    """A null, a missing number or a mixture is never read as a score: the row is named by file and number."""
    with begin() as run:
        (run.path / "scored" / "step-00000001.jsonl").write_text(f"{json.dumps(SCORED)}\n{json.dumps(row)}\n")
        with pytest.raises(RewardContractError, match=r"step-00000001.jsonl, row 2: ") as caught:
            list(RecordedRun(run.path).candidates())
        assert why in str(caught.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (json.dumps(SCORED), "row 1: the file is cut off; copy it again"),
        (json.dumps(SCORED)[:-9], "row 1: no recorded candidate: Input data was truncated"),
        (json.dumps(SCORED).replace("1.0", "NaN") + "\n", "row 1: no recorded candidate: JSON is malformed"),
        ("\n", "row 1: no recorded candidate: Input data was truncated"),
    ],
)
def test_a_damaged_file_is_an_error(begin: Begin, text: str, why: str) -> None:
    """Half a file, a bare NaN and an empty line are told, not skipped."""
    with begin() as run:
        (run.path / "scored" / "step-00000001.jsonl").write_text(text)
        with pytest.raises(RewardContractError, match=why):
            list(RecordedRun(run.path).candidates())


def test_a_damaged_parquet_file_is_an_error(begin: Begin, batch: Any) -> None:
    """Cut off, without its columns, or with a NaN in the place of a reward, it is refused."""
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    with begin(settings=RecordSettings(format="parquet")) as run:
        file = run.record_step(1, batch.trajectories, batch.outcome)
    table, whole = parquet.read_table(file), file.read_bytes()
    found = RecordedRun(run.path)

    def refused(why: str) -> None:
        with pytest.raises(RewardContractError, match=why):
            list(found.candidates())

    file.write_bytes(whole[:-30])
    refused(r"step-00000001.parquet is no file of scored candidates")
    parquet.write_table(table.drop_columns(["group_id"]), file)
    refused(r"is no file of scored candidates: .*missing required field `group_id`")
    at = table.column_names.index("advantage")
    parquet.write_table(table.set_column(at, "advantage", arrow.array([math.nan, 0.0, None, None])), file)
    refused(r"step-00000001.parquet, row 1: g1/0: advantage: expected a finite float, got nan")
    half = arrow.array([{"task": 1.0, "final": None}, None, None, None], type=table.schema.field("reward").type)
    parquet.write_table(table.set_column(table.column_names.index("reward"), "reward", half), file)
    refused(r"is no file of scored candidates: Expected `float`, got `null`")
    file.write_bytes(whole)
    assert len(list(found.candidates())) == 4


def test_other_files_are_no_steps(begin: Begin) -> None:
    """Temporaries, copies and notes in the folder of steps are not read."""
    with begin() as run:
        for name in (".step-00000001.jsonl.tmp", "step-1.jsonl", "step-00000001.jsonl.bak", "notes.txt"):
            (run.path / "scored" / name).write_text("nonsense")
        assert RecordedRun(run.path).steps == []


@given(st.lists(st.lists(st.one_of(st.none(), finite_floats), max_size=5), max_size=5))
def test_a_tally_is_exact_and_counts_what_was_not_scored(parts: list[list[float | None]]) -> None:
    """Means are the correctly rounded ones of exactly the scored candidates; the rest is counted by cause."""
    rows = [
        RecordedCandidate(trajectory_id="t", group_id="g", reward={}, advantage=None, dropped_because="timeout")
        if value is None
        else RecordedCandidate(trajectory_id="t", group_id="g", reward={"final": value}, advantage=0.0)
        for part in parts
        for value in part
    ]
    values = [value for part in parts for value in part if value is not None]
    found = tally(rows)
    missing = len(rows) - len(values)
    assert (found.scored, found.not_scored) == (len(values), {"timeout": missing} if missing else {})
    assert {name: it.count for name, it in found.rewards.items()} == ({"final": len(values)} if values else {})
    if values:
        assert found.rewards["final"].mean == float(sum(map(Fraction, values)) / len(values))


def test_a_long_tally_is_one_of_its_stretches(batch: Any) -> None:
    """More values than are held at once come to the same: 0 to 9,999 have the mean 4,999.5 and the range they have."""
    rows = (
        RecordedCandidate(trajectory_id="t", group_id="g", reward={"final": float(at)}, advantage=0.0)
        for at in range(10_000)
    )
    found = tally(rows).rewards["final"]
    assert (found.count, found.mean, found.low, found.high) == (10_000, 4999.5, 0.0, 9999.0)


_READ = """
import sys
from posttrain.runs.directory import RecordedRun
scored = RecordedRun(sys.argv[1]).tally().scored
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(scored, peak.split()[1])
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak memory is read from /proc")
@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_memory_stays_flat(begin: Begin, kind: Any) -> None:
    """Eight times the candidates, 16 MB more of them, cost no more memory to read."""
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    row = RecordedCandidate(trajectory_id="t", group_id="g", step=1, reward={"final": 1.0}, advantage=0.0)
    peaks = []
    for count in (5_000, 40_000):
        with begin(f"run-{count}") as run:
            file = run.path / "scored" / f"step-00000001.{kind}"
            # Completions that differ: the same one again and again would be compressed to nothing.
            rows = [
                msgspec.structs.replace(row, completion=hashlib.sha512(b"%d" % at).hexdigest() * 3)
                for at in range(count)
            ]
            file.write_bytes(parquet_bytes(rows, []) if kind == "parquet" else b"".join(encoded_rows(rows)))
        done = subprocess.run([sys.executable, "-c", _READ, str(run.path)], capture_output=True, text=True, check=True)
        scored, peak = map(int, done.stdout.split())
        assert scored == count
        peaks.append(peak)
    assert peaks[1] - peaks[0] < 8_000
