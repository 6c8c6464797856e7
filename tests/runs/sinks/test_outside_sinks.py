# SPDX-License-Identifier: Apache-2.0
"""The sinks of other tools, each read back with that tool's own reader; a missing one is told in one line."""

from __future__ import annotations

import json
import math
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.runs.sinks import MlflowSink, TensorBoardSink, WandbSink
from posttrain.runs.sinks.installed import installed


def _scalars(folder: Path) -> dict[str, list[tuple[int, float, float]]]:
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulators.EventAccumulator(str(folder), purge_orphaned_data=True)
    events.Reload()
    return {
        tag: [(each.step, each.wall_time, each.value) for each in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
    }


def test_tensorboard_reads_back_what_was_written(tmp_path: Path) -> None:
    """Every metric is a scalar of its name with step and time, in the file as soon as the call returns."""
    pytest.importorskip("tensorboard")
    with TensorBoardSink(tmp_path / "a" / "tensorboard", clock=lambda: 50.0) as sink:
        sink.write(1, {"train/reward/final/mean": 0.5, "val/pass@4": 1})
        # 0.1 is no 32-bit float; the nearest is 13421773 / 2^27.
        sink.write(2, {"train/reward/final/mean": 0.1})
        assert _scalars(tmp_path / "a" / "tensorboard") == {
            "train/reward/final/mean": [(1, 50.0, 0.5), (2, 50.0, 13421773 / 2**27)],
            "val/pass@4": [(1, 50.0, 1.0)],
        }


def test_tensorboard_hides_what_a_resumed_run_does_anew(tmp_path: Path) -> None:
    """Points of the earlier run from the first new step on are gone from the curves; those before it stay."""
    pytest.importorskip("tensorboard")
    for begins_at, steps, value in ((None, (1, 2, 3, 4), 0.0), (3, (3, 4), 1.0)):
        with TensorBoardSink(tmp_path, begins_at=begins_at, clock=lambda value=value: 50.0 + value) as sink:  # type: ignore[misc]  # mypy infers no lambda with a default
            for step in steps:
                sink.write(step, {"x": value})
    assert [(step, value) for step, _, value in _scalars(tmp_path)["x"]] == [(1, 0.0), (2, 0.0), (3, 1.0), (4, 1.0)]


def test_tensorboard_gets_no_infinity(tmp_path: Path) -> None:
    """A finite number that its 32 bits can't hold is refused by name; written, it would have become infinity."""
    pytest.importorskip("tensorboard")
    with TensorBoardSink(tmp_path) as sink:
        with pytest.raises(RewardContractError, match=r"32-bit floats, and these are beyond them:\n  'wide': 1e\+39$"):
            sink.write(1, {"fine": 3e38, "wide": 1e39})
        with pytest.raises(RewardContractError, match="'x': expected a finite number"):
            sink.write(1, {"x": math.nan})
        sink.write(1, {"x": 5e-324})
    assert [value for _, _, value in _scalars(tmp_path)["x"]] == [0.0]


def test_tensorboard_needs_neither_torch_nor_tensorflow(fresh_python: Callable[[str], str], tmp_path: Path) -> None:
    """Writing an event file loads neither of them, and importing the sinks loads nothing heavy at all."""
    pytest.importorskip("tensorboard")
    program = f"""
import sys
from pathlib import Path
import posttrain.runs.sinks as sinks
early = sorted({{"tensorboard", "wandb", "mlflow", "numpy", "pyarrow"}} & set(sys.modules))
with sinks.TensorBoardSink(Path({str(tmp_path)!r})) as sink:
    sink.write(1, {{"x": 1.0}})
print(early, sorted({{"torch", "tensorflow"}} & set(sys.modules)))
"""
    assert fresh_python(program) == "[] []\n"


def test_a_closed_tensorboard_sink_refuses(tmp_path: Path) -> None:
    """Closing twice is fine; writing afterwards is an error."""
    pytest.importorskip("tensorboard")
    sink = TensorBoardSink(tmp_path)
    sink.close()
    sink.close()
    with pytest.raises(RewardContractError, match="this TensorBoard sink is closed"):
        sink.write(1, {"x": 1.0})


def test_a_folder_that_can_not_be_made_is_told(tmp_path: Path) -> None:
    """A file in the place of the folder is named."""
    pytest.importorskip("tensorboard")
    (tmp_path / "file").touch()
    with pytest.raises(RewardConfigError, match=r"the folder .*/file/tb can't be made: Not a directory"):
        TensorBoardSink(tmp_path / "file" / "tb")


def _mlflow_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    return (tmp_path / "store").as_uri()


def test_mlflow_reads_back_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a real store on disk: every metric with step and time in milliseconds, and the run ends with its sink."""
    store = _mlflow_store(tmp_path, monkeypatch)
    with MlflowSink.begin(experiment="rewards", name="first", tracking_uri=store, clock=lambda: 50.25) as sink:
        sink.write(1, {"train/reward/final/mean": 0.1, "val/pass@4": 1})
        sink.write(2, {"train/reward/final/mean": 0.2, **{f"many/{at}": float(at) for at in range(1200)}})
        with pytest.raises(RewardContractError, match="'x': expected a finite number"):
            sink.write(3, {"x": math.nan})
        run_id = sink.run_id
    with MlflowSink(run_id, tracking_uri=store, clock=lambda: 60.0) as more:
        more.write(3, {"train/reward/final/mean": 0.3})
    client = installed("mlflow.tracking", purpose="", install="").MlflowClient(tracking_uri=store)
    history = client.get_metric_history(run_id, "train/reward/final/mean")
    assert [(each.step, each.timestamp, each.value) for each in history] == [
        (1, 50_250, 0.1),
        (2, 50_250, 0.2),
        (3, 60_000, 0.3),
    ]
    assert [each.value for each in client.get_metric_history(run_id, "val/pass_4")] == [1.0]
    assert [each.value for each in client.get_metric_history(run_id, "many/1199")] == [1199.0]
    assert client.get_run(run_id).info.status == "FINISHED"
    assert client.get_run(run_id).info.run_name == "first"


def test_two_metrics_of_one_name_in_mlflow_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that MLflow can't hold is changed; where two become one, both are named and nothing is written."""
    store = _mlflow_store(tmp_path, monkeypatch)
    with MlflowSink.begin(experiment="rewards", name="first", tracking_uri=store) as sink:
        with pytest.raises(RewardContractError, match=r"one name in MLflow.*:\n  'pass_4': 'pass@4', 'pass#4'$"):
            sink.write(1, {"pass@4": 1.0, "pass#4": 1.0, "fine": 1.0})
        sink.close()
        with pytest.raises(RewardContractError, match="this MLflow sink is closed"):
            sink.write(1, {"x": 1.0})


def test_an_experiment_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs of one experiment lie in the same one."""
    store = _mlflow_store(tmp_path, monkeypatch)
    runs = []
    for name in ("first", "second"):
        with MlflowSink.begin(experiment="rewards", name=name, tracking_uri=store, tags={"stage": "abc"}) as sink:
            runs.append(sink.run_id)
    client = installed("mlflow.tracking", purpose="", install="").MlflowClient(tracking_uri=store)
    assert len({client.get_run(each).info.experiment_id for each in runs}) == 1
    assert {client.get_run(each).data.tags["stage"] for each in runs} == {"abc"}


def _wandb_records(data: bytes) -> Iterator[bytes]:
    """The records of an offline file: a log of LevelDB's format, in blocks of 32 KiB, behind a header of 7 bytes."""
    at, record = 7, b""
    while at + 7 <= len(data):
        if (left := 32768 - at % 32768) < 7:
            at += left
            continue
        length, kind = struct.unpack_from("<HB", data, at + 4)
        record += data[at + 7 : at + 7 + length]
        at += 7 + length
        # 1 is a whole record and 4 the last piece of one; 2 and 3 are pieces that have others behind them.
        if kind in {1, 4}:
            yield record
            record = b""


def _wandb_rows(folder: Path) -> list[dict[str, Any]]:
    """Every row of history in the offline file of the one run in a folder."""
    protocol = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    (file,) = folder.glob("wandb/offline-run-*/run-*.wandb")
    rows = []
    for data in _wandb_records(file.read_bytes()):
        record = protocol.Record()
        record.ParseFromString(data)
        if record.HasField("history"):
            rows.append({it.key or "/".join(it.nested_key): json.loads(it.value_json) for it in record.history.item})
    return rows


def test_wandb_keeps_late_values_too(tmp_path: Path) -> None:
    """In an offline run's own file: every metric with its step, also one that comes for an earlier step."""
    pytest.importorskip("wandb")
    with WandbSink.begin(
        project="rewards", name="first", folder=tmp_path, config={"group_size": 8}, mode="offline"
    ) as sink:
        sink.write(1, {"train/reward/final/mean": 0.1})
        sink.write(2, {"train/reward/final/mean": 0.2})
        sink.write(1, {"val/pass@4": 1})
        with pytest.raises(RewardContractError, match="'x': expected a finite number"):
            sink.write(3, {"x": math.nan})
    with pytest.raises(RewardContractError, match="this W&B sink is closed"):
        sink.write(3, {"x": 1.0})
    # W&B's own process writes the file, and may not be done when the run is.
    until = time.monotonic() + 20
    while len(_wandb_rows(tmp_path)) < 3 and time.monotonic() < until:
        time.sleep(0.1)
    rows = [{key: value for key, value in row.items() if key[0] != "_"} for row in _wandb_rows(tmp_path)]
    assert rows == [
        {"step": 1, "train/reward/final/mean": 0.1},
        {"step": 2, "train/reward/final/mean": 0.2},
        {"step": 1, "val/pass@4": 1.0},
    ]


def test_a_run_of_the_users_own_stays_open(tmp_path: Path) -> None:
    """A sink around a run that the trainer began does not end it."""
    ended: list[str] = []
    run = SimpleNamespace(
        define_metric=lambda *_, **__: None,
        log=lambda row: ended.append(f"log {row}"),
        finish=lambda: ended.append("end"),
    )
    with WandbSink(run) as sink:
        sink.write(1, {"x": 2})
    assert ended == ["log {'step': 1, 'x': 2.0}"]


@pytest.mark.parametrize(
    ("begin", "line"),
    [
        (
            TensorBoardSink,
            "The TensorBoard sink needs tensorboard: pip install 'posttrain[report]'",
        ),
        (
            lambda folder: WandbSink.begin(project="p", name="n", folder=folder),
            "The W&B sink needs wandb: pip install wandb",
        ),
        (
            lambda folder: MlflowSink.begin(experiment="e", name="n"),
            "The MLflow sink needs mlflow: pip install mlflow-skinny",
        ),
    ],
    ids=["tensorboard", "wandb", "mlflow"],
)
def test_a_missing_tool_is_told_in_one_line(
    begin: Callable[[Path], object], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it is needed for, what is missing, and what to install."""
    for name in [*sys.modules, "tensorboard", "wandb", "mlflow"]:
        if name.partition(".")[0] in {"tensorboard", "wandb", "mlflow"}:
            # This is how Python marks a module that must not be found.
            monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(RewardConfigError, match="needs") as caught:
        begin(tmp_path)
    assert str(caught.value) == line


def test_a_tool_that_fails_at_import_is_not_called_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is there and lacks one of its own dependencies shows its own error."""
    (tmp_path / "half_installed.py").write_text("import something_else_entirely\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="something_else_entirely"):
        installed("half_installed", purpose="This", install="it")
    with pytest.raises(RewardConfigError, match=r"^This needs not_there: pip install it$"):
        installed("not_there.at_all", purpose="This", install="it")
