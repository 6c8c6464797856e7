# SPDX-License-Identifier: Apache-2.0
"""The reader of a run's directory, at any time: beside its writer, after a kill, or on another machine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, final

import msgspec

from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.runs.directory.parquet import parquet_rows
from posttrain.runs.directory.provenance import Provenance, read_provenance
from posttrain.runs.directory.scored import check_recorded
from posttrain.runs.directory.state import RewardState, read_state
from posttrain.runs.directory.tally import ScoreTally, tally
from posttrain.runs.records import (
    CONFIG_FILE,
    METRICS_FILE,
    PROVENANCE_FILE,
    SCORED_FOLDER,
    STATE_FILE,
    RecordedCandidate,
)
from posttrain.runs.sinks.files import refusals
from posttrain.runs.sinks.jsonl import MetricsLine, metric_lines

__all__ = ["RecordedRun"]

_STEP: Final = re.compile(r"step-([0-9]{8})\.(?:jsonl|parquet)", re.ASCII)


@final
class RecordedRun:
    """A run on disk, for reading; it takes no lock and changes nothing.

    Args:
        path: the run's folder.

    Raises:
        RewardConfigError: it is no run.
    """

    __slots__ = ("path",)

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not (self.path / PROVENANCE_FILE).is_file():
            raise RewardConfigError(f"{path} is no run: it has no {PROVENANCE_FILE}")

    def __repr__(self) -> str:
        return f"RecordedRun({str(self.path)!r})"

    @property
    def config_text(self) -> str:
        """The resolved config, TOML."""
        file = self.path / CONFIG_FILE
        with refusals(file, "read"):
            return file.read_text(encoding="utf-8")

    @property
    def provenance(self) -> Provenance:
        """What the run is made with."""
        return read_provenance(self.path / PROVENANCE_FILE)

    @property
    def state(self) -> RewardState | None:
        """The reward state that was saved last; None: none was. Reading it checks no identity."""
        return read_state(self.path / STATE_FILE)

    @property
    def files(self) -> dict[int, Path]:
        """The files of recorded candidates by step, in order."""
        folder = self.path / SCORED_FOLDER
        with refusals(folder, "read"):
            found = {each: match for each in folder.iterdir() if (match := _STEP.fullmatch(each.name)) is not None}
        return {int(match[1]): file for file, match in sorted(found.items())}

    @property
    def steps(self) -> list[int]:
        """The steps whose candidates are recorded, in order."""
        return list(self.files)

    @property
    def last_step(self) -> int | None:
        """Largest step of which candidates or metrics are recorded; None: there is none."""
        return max((*self.steps[-1:], *(line.step for line in self.metric_lines())), default=None)

    def candidates(self, step: int | None = None) -> Iterator[RecordedCandidate]:
        """The recorded candidates of a step, or of the whole run in the order of its steps; in flat memory.

        One that was not scored has no reward, no advantage, and the cause in `dropped_because`.

        Raises:
            RewardConfigError: the step has no candidates, or a file can't be read.
            RewardContractError: a row is damaged: it is named by file and number.
        """
        files = self.files
        if step is not None and step not in files:
            raise RewardConfigError(f"{self.path} has no candidates of step {step}; it has {_ranges(list(files))}")
        for number, file in files.items():
            if step is None or step == number:
                yield from _rows(file, number)

    def tally(self, step: int | None = None) -> ScoreTally:
        """What the candidates of a step, or of the whole run, come to."""
        return tally(self.candidates(step))

    def metric_lines(self) -> Iterator[MetricsLine]:
        """Every line of metrics in the order in which it was written; in flat memory."""
        return metric_lines(self.path / METRICS_FILE)

    def metrics(self) -> dict[int, dict[str, float]]:
        """All metrics by step, in order; a step's lines are taken together."""
        found: dict[int, dict[str, float]] = {}
        for line in self.metric_lines():
            found.setdefault(line.step, {}).update(line.metrics)
        return dict(sorted(found.items()))


def _rows(file: Path, step: int) -> Iterator[RecordedCandidate]:
    rows = parquet_rows(file) if file.suffix == ".parquet" else _json_rows(file)
    for number, row in enumerate(rows, 1):
        fault = check_recorded(row)
        if fault is None and row.step != step:
            fault = f"it is of step {row.step}"
        if fault is not None:
            raise RewardContractError(f"{file}, row {number}: {row.trajectory_id}: {fault}")
        yield row


def _json_rows(file: Path) -> Iterator[RecordedCandidate]:
    decode = msgspec.json.Decoder(RecordedCandidate).decode
    with refusals(file, "read"), file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                row = decode(line)
            except (msgspec.DecodeError, RecursionError) as error:
                raise RewardContractError(f"{file}, row {number}: no recorded candidate: {error}") from error
            if not line.endswith(b"\n"):
                raise RewardContractError(f"{file}, row {number}: the file is cut off; copy it again")
            yield row


def _ranges(steps: list[int]) -> str:
    return f"{len(steps)} steps, {steps[0]} to {steps[-1]}" if steps else "none"
