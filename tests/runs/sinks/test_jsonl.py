# SPDX-License-Identifier: Apache-2.0
"""Metrics as JSON lines: what is written stays, what a kill has torn goes, and nothing is there twice."""

from __future__ import annotations

import json
import math
import stat
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.runs.sinks import MetricsLine, MetricsLog, metric_lines


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the log of a test goes."""
    return tmp_path / "metrics.jsonl"


def _log(path: Path, clock: Callable[[], float] = lambda: 12.5) -> MetricsLog:
    return MetricsLog(path, clock=clock)


def test_one_line_a_call(path: Path) -> None:
    """Each call appends one JSON object with step, time and the metrics, readable by everybody."""
    seconds = count(100)
    with _log(path, lambda: float(next(seconds))) as log:
        log.write(1, {"train/reward/final/mean": 0.5, "loss": 2})
        log.write(2, {})
    assert path.read_text() == (
        '{"step":1,"time":100.0,"train/reward/final/mean":0.5,"loss":2.0}\n{"step":2,"time":101.0}\n'
    )
    assert stat.S_IMODE(path.stat().st_mode) & 0o777 == 0o644
    assert list(metric_lines(path)) == [
        MetricsLine(1, 100.0, {"train/reward/final/mean": 0.5, "loss": 2.0}),
        MetricsLine(2, 101.0, {}),
    ]


def test_what_is_no_number_leaves_the_file_as_it_was(path: Path) -> None:
    """A NaN is refused by its key, and never written, as null least of all."""
    with _log(path) as log:
        log.write(1, {"a": 1.0})
        before = path.read_bytes()
        with pytest.raises(RewardContractError, match="'b': expected a finite number, got nan"):
            log.write(2, {"a": 1.0, "b": math.nan})
        assert path.read_bytes() == before
        log.write(2, {"a": 1.0})
    assert [line.step for line in metric_lines(path)] == [1, 2]


def test_a_step_may_have_several_lines_but_no_metric_twice(path: Path) -> None:
    """A validation's metrics may follow those of its step later; a metric that is there is refused by name."""
    with _log(path) as log:
        log.write(10, {"train/x": 1.0, "train/y": 1.0})
        log.write(11, {"train/x": 2.0})
        log.write(10, {"val/x": 3.0})
        with pytest.raises(RewardContractError, match=r"step 10 has these metrics already; .*\n  train/x\n  val/x$"):
            log.write(10, {"val/x": 4.0, "train/x": 5.0, "new": 6.0})
        assert (log.last_step, len(list(metric_lines(path)))) == (11, 3)
    with _log(path) as again, pytest.raises(RewardContractError, match=r"step 11 has these metrics already"):
        again.write(11, {"train/x": 2.0})


@given(cut=st.integers(0, 200), steps=st.integers(0, 4))
def test_a_torn_last_line_is_cut_off(tmp_path_factory: pytest.TempPathFactory, cut: int, steps: int) -> None:
    """Wherever the file ends, the whole lines stay and the rest goes, for a reader and for the next writer."""
    path = tmp_path_factory.mktemp("torn") / "metrics.jsonl"
    with _log(path) as log:
        for step in range(steps):
            log.write(step, {"train/reward/final/mean": step / 4})
    whole = path.read_bytes()
    torn = whole[: max(0, len(whole) - cut)]
    path.write_bytes(torn)
    kept = torn[: torn.rfind(b"\n") + 1]
    left = [line.step for line in metric_lines(path)]
    assert left == list(range(kept.count(b"\n")))
    assert path.read_bytes() == torn
    with _log(path) as log:
        assert path.read_bytes() == kept
        log.write(len(left), {"x": 1.0})
    assert path.read_bytes().startswith(kept)
    assert [line.step for line in metric_lines(path)] == list(range(len(left) + 1))


@pytest.mark.parametrize("tail", [b"\0\0\0\0", b'{"step":2', b'{"step":2,"time":1.0}'])
def test_a_tail_without_its_end_was_never_promised(path: Path, tail: bytes) -> None:
    """Zeros of a power cut, half a line, and a line that only lacks its end are all cut off."""
    with _log(path) as log:
        log.write(1, {"x": 1.0})
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    with _log(path) as log:
        assert log.last_step == 1
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"step":1,"time":1.0,"x":null}', "Expected `float`, got `null`"),
        ('{"step":1,"time":1.0,"x":NaN}', "JSON is malformed"),
        ('{"step":1,"time":1.0,"x":true}', "Expected `float`, got `bool`"),
        ('{"step":1,"time":1.0,"x":1e999}', "Number out of range"),
        ('{"time":1.0,"x":1}', "it has no 'step'"),
        ('{"step":1,"x":1}', "it has no 'time'"),
        ('{"step":1.5,"time":1,"x":1}', "expected an int from 0 to 99,999,999, got 1.5"),
        ('{"step":-1,"time":1,"x":1}', "expected an int from 0 to 99,999,999, got -1"),
        ("", "Input data was truncated"),
        ("nonsense", "JSON is malformed"),
    ],
)
def test_a_damaged_line_is_named(path: Path, line: str, why: str) -> None:
    """A whole line that is no line of metrics is an error with its number, for reader and writer."""
    path.write_text(f'{{"step":0,"time":1.0}}\n{line}\n{{"step":3,"time":1.0}}\n')
    before = path.read_bytes()
    with pytest.raises(RewardContractError, match=r"metrics.jsonl, line 2: no line of metrics") as caught:
        list(metric_lines(path))
    assert why in str(caught.value)
    with pytest.raises(RewardContractError, match=r"line 2: no line of metrics"):
        _log(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("step", "left"), [(-1, []), (0, []), (1, [1, 1]), (2, [1, 2, 1]), (3, [1, 2, 3, 1]), (9, [1, 2, 3, 1])]
)
def test_rewinding_takes_later_steps_out(path: Path, step: int, left: list[int]) -> None:
    """Lines of later steps go, wherever they stand; the others keep their order, time and values; writing goes on."""
    seconds = count(1)
    with _log(path, lambda: float(next(seconds))) as log:
        for number in (1, 2, 3):
            log.write(number, {"x": 0.1 * number})
        log.write(1, {"val/x": 1.0})
        lines = path.read_text().splitlines()
        log.rewind(step)
        assert [line.step for line in metric_lines(path)] == left
        assert path.read_text().splitlines() == [line for line in lines if json.loads(line)["step"] <= step]
        log.write(step + 1, {"y": 1.0})
        assert log.last_step == max(step + 1, *left, 0)
    assert [each.name for each in path.parent.iterdir()] == ["metrics.jsonl"]


def test_rewinding_to_a_later_step_writes_nothing(path: Path) -> None:
    """Where there is nothing to take out the file is not touched at all."""
    with _log(path) as log:
        log.write(1, {"x": 1.0})
        inode = path.stat().st_ino
        log.rewind(1)
        assert path.stat().st_ino == inode


def test_a_closed_log_refuses(path: Path) -> None:
    """After close, which may come twice, nothing can be written or rewound."""
    log = _log(path)
    log.write(1, {"x": 1.0})
    log.close()
    log.close()
    works: list[Callable[[], None]] = [lambda: log.write(2, {}), lambda: log.rewind(0)]
    for work in works:
        with pytest.raises(RewardContractError, match=r"metrics log metrics.jsonl was closed, .* open the run again"):
            work()


def test_a_refusal_of_the_file_system_ends_the_log(path: Path) -> None:
    """When the disk is full the error says so, what was recorded stays whole, and the log has to be opened again."""
    resource = pytest.importorskip("resource")
    signal = pytest.importorskip("signal")
    log = _log(path)
    log.write(1, {"x": 1.0})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 10, limits[1]))
    try:
        with pytest.raises(RewardConfigError, match=r"can't write .*metrics.jsonl: File too large"):
            log.write(2, {"x": 1.0})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    with pytest.raises(RewardContractError, match="failed or was interrupted in an earlier step"):
        log.write(2, {"x": 1.0})
    log.close()
    assert [line.step for line in metric_lines(path)] == [1]
    with _log(path) as again:
        again.write(2, {"x": 1.0})
    assert [line.step for line in metric_lines(path)] == [1, 2]


def test_a_file_that_is_not_there_is_told(path: Path) -> None:
    """A reader of a missing file, and a writer in a missing folder, get an error that names it."""
    with pytest.raises(RewardConfigError, match=r"can't read .*metrics.jsonl: No such file"):
        list(metric_lines(path))
    with pytest.raises(RewardConfigError, match=r"can't write .*nowhere/m: No such file"):
        MetricsLog(path.parent / "nowhere" / "m")


def test_an_interrupt_at_any_line_keeps_what_was_recorded(path: Path, interrupted: Any) -> None:
    """An interrupt before each executed line, in turn, leaves whole lines alone, and the log can be opened again."""
    at, written = 0, set()
    while True:
        at += 1
        path.unlink(missing_ok=True)
        log = _log(path)
        log.write(1, {"x": 1.0})
        came = interrupted(lambda log=log: log.write(2, {"x": 2.0}), at)
        log.close()
        with _log(path) as again:
            steps = [line.step for line in metric_lines(path)]
            assert again.last_step == steps[-1]
        assert steps in ([1], [1, 2])
        written.add(len(steps))
        if not came:
            break
    # Fewer would mean that the lines were not traced.
    assert at > 15
    assert written == {1, 2}
