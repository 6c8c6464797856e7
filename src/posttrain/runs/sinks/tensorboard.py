# SPDX-License-Identifier: Apache-2.0
"""Metrics as TensorBoard event files, by TensorBoard's own writer: neither torch nor TensorFlow is needed."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self, final

from posttrain.errors import RewardContractError, listing
from posttrain.runs.sinks.files import make_folder
from posttrain.runs.sinks.installed import installed
from posttrain.runs.sinks.sink import check_step, checked_metrics

__all__ = ["TensorBoardSink"]


@final
class TensorBoardSink:
    """Writes each metric as a scalar of its own name. TensorBoard keeps 32-bit floats; the run's JSONL is exact.

    Args:
        folder: where the event files go, for example ``tensorboard`` in the run's directory; made if it is missing.
        begins_at: the step that a resumed run begins with: what earlier event files hold from there on is not shown
            any more. None: a new run.
        clock: gives the time of a value, in Unix seconds.

    Raises:
        RewardConfigError: TensorBoard is not installed.
    """

    def __init__(self, folder: Path, *, begins_at: int | None = None, clock: Callable[[], float] = time.time) -> None:
        self._events = _module("tensorboard.compat.proto.event_pb2")
        self._summaries = _module("tensorboard.compat.proto.summary_pb2")
        writer = _module("tensorboard.summary.writer.event_file_writer")
        self._clock = clock
        make_folder(folder)
        self._writer: Any = writer.EventFileWriter(str(folder))
        if begins_at is not None:
            start = self._events.SessionLog(status=self._events.SessionLog.START)
            self._add(check_step(begins_at), session_log=start)
            self._writer.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Append the metrics of a step; they are in the event file when the call returns.

        Raises:
            RewardContractError: a metric is none, or is beyond the range of a 32-bit float; nothing is written.
        """
        step, values = check_step(step), checked_metrics(metrics)
        if wide := [f"{name!r}: {value!r}" for name, value in values.items() if not _fits(value)]:
            raise RewardContractError(f"TensorBoard holds 32-bit floats, and these are beyond them:\n{listing(wide)}")
        if self._writer is None:
            raise RewardContractError("this TensorBoard sink is closed")
        value = self._summaries.Summary.Value
        scalars = [value(tag=name, simple_value=number) for name, number in values.items()]
        self._add(step, summary=self._summaries.Summary(value=scalars))
        self._writer.flush()

    def close(self) -> None:
        """Write what is left and let go of the file. Closing twice is fine."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _add(self, step: int, **what: Any) -> None:
        self._writer.add_event(self._events.Event(wall_time=self._clock(), step=step, **what))


def _module(name: str) -> Any:
    return installed(name, purpose="The TensorBoard sink", install="'posttrain[report]'")


def _fits(value: float) -> bool:
    try:
        struct.pack("<f", value)
    except OverflowError:
        return False
    return True
