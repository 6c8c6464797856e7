# SPDX-License-Identifier: Apache-2.0
"""Metrics as JSON lines: append-only, each line on the disk before the call returns, never a torn or a doubled one."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self, final

import msgspec

from posttrain.errors import RewardContractError, listing
from posttrain.rollouts.atomic import sync_folder, write_all
from posttrain.runs.sinks.files import put, refusals
from posttrain.runs.sinks.sink import check_step, checked_metrics

__all__ = ["MetricsLine", "MetricsLog", "metric_lines"]

_MODE: Final = 0o644
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, float]).decode


@final
class MetricsLine(msgspec.Struct, frozen=True):
    """One line of a metrics file."""

    step: int
    time: float
    """When it was written, in Unix seconds."""
    metrics: dict[str, float]


def metric_lines(path: Path) -> Iterator[MetricsLine]:
    """The lines of a metrics file, in the order in which they were written.

    A last line without its end is left out: it is being written, or was when its process was killed, and nobody was
    told that it was recorded.

    Raises:
        RewardConfigError: the file can't be read.
        RewardContractError: a line in it is no line of metrics; it is named by its number.
    """
    return (line for line, _ in _lines(path))


@final
class MetricsLog:
    """The writer of one metrics file; a `MetricSink`. One process at a time, which the caller sees to.

    A step may have several lines, a validation's beside the training's, but no metric twice. After a failure or an
    interrupt within one of its methods it can only be closed and opened again, since nobody knows how far it got.

    Args:
        path: the file; it is made when it is not there. A last line that a kill has torn is cut off.
        clock: gives the time of a line, in Unix seconds.

    Raises:
        RewardConfigError: the file system refuses.
        RewardContractError: a line that is there is no line of metrics.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._open()

    def _open(self) -> None:
        """Begin with the file as it stands."""
        self._keys: dict[int, frozenset[str]] = {}
        # Steps mostly share their set of keys, so that each distinct one is kept once.
        self._known: dict[frozenset[str], frozenset[str]] = {}
        self._length = 0
        with refusals(self._path):
            # An object, not a bare descriptor: wherever an interrupt comes, it is closed with the last reference.
            self._file: io.FileIO | None = io.FileIO(self._path, "r+", opener=_opened)
            try:
                for line, end in _lines(self._path):
                    self._remember(line.step, line.metrics)
                    self._length = end
                os.ftruncate(self._file.fileno(), self._length)
                sync_folder(self._path.parent)
            except BaseException:
                self._file.close()
                raise
        self._is_usable = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"MetricsLog({self._path.name!r}, {len(self._keys)} steps)"

    @property
    def last_step(self) -> int | None:
        """Largest step that has a line; None: there is none."""
        return max(self._keys, default=None)

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Append the metrics of a step as one line; it is on the disk when the call returns.

        Raises:
            RewardContractError: naming every metric that is none (see `checked_metrics`) or that the step has already;
                or the log is closed. Nothing is written.
            RewardConfigError: the file system refuses.
        """
        step, values = check_step(step), checked_metrics(metrics)
        if doubled := sorted(self._keys.get(step, frozenset()).intersection(values)):
            raise RewardContractError(
                f"step {step} has these metrics already; rewind to the step that the run went back to:\n"
                f"{listing(doubled)}"
            )
        line = _encode({"step": step, "time": self._clock(), **values}) + b"\n"
        with self._step() as file:
            write_all(file, line, self._length)
            os.fsync(file)
            self._length += len(line)
            self._remember(step, values)

    def rewind(self, step: int) -> None:
        """Take out every line of a later step than `step`; -1 takes all of them.

        Raises:
            RewardContractError: the log is closed.
            RewardConfigError: the file system refuses.
        """
        if all(recorded <= step for recorded in self._keys):
            return
        with self._step():
            kept = (
                _encode({"step": line.step, "time": line.time, **line.metrics}) + b"\n"
                for line in metric_lines(self._path)
                if line.step <= step
            )
            put(self._path, kept, mode=_MODE)
        self.close()
        self._open()

    def close(self) -> None:
        """Let go of the file. Closing twice is fine."""
        self._is_usable = False
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _remember(self, step: int, metrics: Mapping[str, Any]) -> None:
        keys = self._keys.get(step, frozenset()).union(metrics)
        self._keys[step] = self._known.setdefault(keys, keys)

    @contextmanager
    def _step(self) -> Iterator[int]:
        """One operation: when it does not come to its end, no other may follow."""
        if self._file is None or not self._is_usable:
            raise RewardContractError(
                f"the metrics log {self._path.name} was closed, or failed or was interrupted in an earlier step: "
                "open the run again"
            )
        self._is_usable = False
        with refusals(self._path):
            yield self._file.fileno()
        self._is_usable = True


def _opened(name: str, _: int) -> int:
    return os.open(name, _FLAGS, _MODE)


def _lines(path: Path) -> Iterator[tuple[MetricsLine, int]]:
    """Every whole line, with the offset behind it."""
    with refusals(path, "read"), path.open("rb") as file:
        end = 0
        for number, text in enumerate(file, 1):
            if not text.endswith(b"\n"):
                return
            end += len(text)
            yield _line(path, number, text), end


def _line(path: Path, number: int, text: bytes) -> MetricsLine:
    try:
        values = _decode(text)
        step = values.pop("step")
        return MetricsLine(check_step(int(step) if step.is_integer() else step), values.pop("time"), values)
    except (msgspec.DecodeError, KeyError, RewardContractError) as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise RewardContractError(
            f"{path}, line {number}: no line of metrics, {why}; put the file back as it was"
        ) from error
