# SPDX-License-Identifier: Apache-2.0
"""The writer of a run's directory: one process at a time, and nothing in it is ever half written."""

from __future__ import annotations

import io
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal, Self, TypeAlias, final, get_args

import msgspec

from posttrain.errors import RewardContractError
from posttrain.rewards import RewardOutcome, RewardReport, StageIdentity
from posttrain.rollouts.atomic import sync_folder
from posttrain.runs.directory.opening import REMOVED, locked_new, locked_run
from posttrain.runs.directory.parquet import parquet_bytes
from posttrain.runs.directory.provenance import Provenance, read_provenance
from posttrain.runs.directory.recorded import RecordedRun
from posttrain.runs.directory.scored import encoded_rows, rows_of
from posttrain.runs.directory.state import RewardState, check_identity, read_state
from posttrain.runs.records import (
    CONFIG_FILE,
    METRICS_FILE,
    PROVENANCE_FILE,
    SCORED_FOLDER,
    STATE_FILE,
    VALIDATION_FOLDER,
    step_name,
)
from posttrain.runs.sinks.files import make_folder, put, refusals
from posttrain.runs.sinks.jsonl import MetricsLog
from posttrain.runs.sinks.sink import check_step
from posttrain.schema import Trajectory

__all__ = ["RecordSettings", "RunDirectory"]

_PRIVATE: Final = 0o600

Format: TypeAlias = Literal["jsonl", "parquet"]
"""Of a file of recorded candidates; also the end of its name."""


@final
class RecordSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the candidates of a step are recorded."""

    format: Format = "jsonl"
    """Parquet needs the extra ``report``."""
    inputs: bool = True
    """Whether prompt and reference are recorded beside completion and scores."""


@final
class RunDirectory:
    """A run on disk, open for writing. Made by `create`, `open` or `resume`; a context manager.

    What a method has recorded when it returns survives a kill and a power cut. Only one process can have a run open
    for writing; any number can read it, with `RecordedRun`, at any time.

    Example:
        ::

            with RunDirectory.create("runs", "first", config_text=text, provenance=Provenance.of(worker.stage)) as run:
                for step in range(1, steps + 1):
                    outcome = worker.compute(trajectories)
                    report = worker.commit(trajectories, outcome)
                    run.record_step(step, trajectories, outcome)
                    run.metrics.write(step, report.metrics())
                run.save_state(step, worker.stage_identity, report)
    """

    def __init__(
        self, path: Path, lock: io.FileIO, settings: RecordSettings, clock: Callable[[], float], warnings: list[str]
    ) -> None:
        self._lock = lock
        self._settings = settings
        self._reader = RecordedRun(path)
        self.path: Final = path
        """The run's folder."""
        self.warnings: Final = tuple(warnings)
        """What `resume` noticed: a line for each provider whose source changed while its revision did not."""
        try:
            self.metrics: Final = MetricsLog(path / METRICS_FILE, clock=clock)
            """Where the run's metrics go; put it first in a `FanOut` that has other sinks too."""
        except BaseException:
            lock.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"RunDirectory({self.path.name!r}, last step {self.last_step})"

    @classmethod
    def create(
        cls,
        root: str | Path,
        name: str,
        *,
        config_text: str,
        provenance: Provenance,
        settings: RecordSettings | None = None,
        clock: Callable[[], float] = time.time,
    ) -> RunDirectory:
        """Begin a run in the new folder `root`/`name`.

        Args:
            root: where runs lie; made if it is missing.
            name: name of the run, one segment of a path.
            config_text: the resolved config as TOML, without secrets.
            provenance: what the run is made with.
            settings: how candidates are recorded.
            clock: gives the time of a line of metrics, in Unix seconds.

        Raises:
            RewardConfigError: there is something of that name already, or the file system refuses.
        """

        def fill(folder: Path) -> None:
            make_folder(folder / SCORED_FOLDER)
            put(folder / CONFIG_FILE, config_text.encode())
            put(folder / METRICS_FILE, b"")
            put(folder / PROVENANCE_FILE, provenance.encode())

        path, lock = locked_new(Path(root), name, fill)
        return cls(path, lock, settings or RecordSettings(), clock, [])

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        settings: RecordSettings | None = None,
        clock: Callable[[], float] = time.time,
    ) -> RunDirectory:
        """Open a run to write on. A line of metrics that a kill has torn is cut off.

        Whoever scores on with it calls `load_state` first, or `resume` in place of both.

        Raises:
            RewardConfigError: there is no run, another process has it open, or the file system refuses.
        """
        path = Path(path)
        return cls(path, locked_run(path), settings or RecordSettings(), clock, [])

    @classmethod
    def resume(
        cls,
        path: str | Path,
        *,
        config_text: str,
        provenance: Provenance,
        accept_identity: str | None = None,
        settings: RecordSettings | None = None,
        clock: Callable[[], float] = time.time,
    ) -> RunDirectory:
        """Open a run to go on with it under this config and this provenance, which take the place of those before.

        What the run was made with so far joins its lineage where it differs. `warnings` tells of providers whose source
        changed while their revision did not. A trainer then calls `rewind` with the step that it goes on from.

        Args:
            path: the run's folder.
            config_text: the resolved config as TOML, without secrets.
            provenance: what the run is made with from here on.
            accept_identity: SHA-256 of another stage identity that is agreed to be left behind.
            settings: how candidates are recorded.
            clock: gives the time of a line of metrics, in Unix seconds.

        Raises:
            RewardConfigError: the run was recorded under another stage identity, which `accept_identity` does not name:
                every field that differs is told, and nothing is changed; there is no run; another process has it open;
                or the file system refuses.
        """
        path = Path(path)
        lock = locked_run(path)
        try:
            earlier = read_provenance(path / PROVENANCE_FILE)
            state = read_state(path / STATE_FILE)
            recorded, record = (earlier.stage, PROVENANCE_FILE) if state is None else (state.stage, STATE_FILE)
            check_identity(provenance.stage, recorded, accept_identity, path / record)
            until = RecordedRun(path).last_step if state is None else state.step
            put(path / PROVENANCE_FILE, provenance.succeeds(earlier, until).encode())
            put(path / CONFIG_FILE, config_text.encode())
            if state is not None and state.stage != provenance.stage:
                _save(path, state.step, provenance.stage, state.report)
        except BaseException:
            lock.close()
            raise
        return cls(path, lock, settings or RecordSettings(), clock, provenance.warnings_after(earlier))

    @property
    def last_step(self) -> int | None:
        """Largest step of which candidates or metrics are recorded; None: there is none."""
        written = self.metrics.last_step
        return max((*self._reader.steps[-1:], *(() if written is None else (written,))), default=None)

    def record_step(self, step: int, trajectories: Sequence[Trajectory], outcome: RewardOutcome) -> Path:
        """Record the candidates of a step in a file that only its owner can read, those of dropped groups included.

        Raises:
            RewardContractError: the step is recorded already, or holds what can't be, see
                `posttrain.runs.directory.scored`. Nothing is written.
            RewardConfigError: the file system refuses, or Parquet is asked for and pyarrow is not installed.
        """
        self._check_open()
        name, folder = step_name(check_step(step)), self.path / SCORED_FOLDER
        if any((folder / f"{name}.{kind}").exists() for kind in get_args(Format)):
            raise RewardContractError(
                f"step {step} is recorded already; rewind to the step that the run went back to, then record again"
            )
        rows = rows_of(step, trajectories, outcome, inputs=self._settings.inputs)
        file = folder / f"{name}.{self._settings.format}"
        is_parquet = self._settings.format == "parquet"
        put(file, parquet_bytes(rows, outcome.terms) if is_parquet else encoded_rows(rows), mode=_PRIVATE)
        return file

    def save_state(self, step: int, stage_identity: StageIdentity, report: RewardReport) -> None:
        """Record the reward state that goes with the trainer's checkpoint of a step.

        Raises:
            RewardContractError: the report holds what is no finite number.
            RewardConfigError: the file system refuses.
        """
        self._check_open()
        _save(self.path, check_step(step), stage_identity, report)

    def load_state(self, expected_identity: StageIdentity, accept_identity: str | None = None) -> RewardState | None:
        """The state that was saved last, after checking that it is of this identity; None: none was saved.

        Without a state the identity is held against the run's provenance. An identity that is accepted is recorded as
        the run's lineage, and the run is one of `expected_identity` from then on.

        Args:
            expected_identity: of the stage as it is set up now.
            accept_identity: SHA-256 of another identity that is agreed to be left behind.

        Raises:
            RewardConfigError: the record is of another identity, which `accept_identity` does not name: every field
                that differs is told; or it has none, or is damaged.
        """
        self._check_open()
        provenance_file, state_file = self.path / PROVENANCE_FILE, self.path / STATE_FILE
        earlier, state = read_provenance(provenance_file), read_state(state_file)
        recorded, record = (earlier.stage, provenance_file) if state is None else (state.stage, state_file)
        if not check_identity(expected_identity, recorded, accept_identity, record):
            return state
        if earlier.stage != expected_identity:
            until = self.last_step if state is None else state.step
            put(provenance_file, earlier.under(expected_identity, until).encode())
        return None if state is None else _save(self.path, state.step, expected_identity, state.report)

    def rewind(self, step: int) -> None:
        """Forget what was recorded after `step`: a trainer that goes on from its checkpoint does those steps anew.

        Candidates, metrics and validations of later steps are removed, and a state that was saved at one. 0 goes back
        to before the first step where steps begin at 1; -1 forgets everything.

        Raises:
            RewardConfigError: the file system refuses; calling again goes on.
        """
        self._check_open()
        if step != -1:
            check_step(step)
        # In this order a kill leaves what a kill of the recorder could have left: no state of a step that is not there,
        # no metrics of a step without candidates, and no gap.
        state = read_state(self.path / STATE_FILE)
        with refusals(self.path):
            if state is not None and state.step > step:
                (self.path / STATE_FILE).unlink()
                sync_folder(self.path)
        self.metrics.rewind(step)
        with refusals(self.path):
            for number, file in reversed(self._reader.files.items()):
                if number > step:
                    file.unlink()
            sync_folder(self.path / SCORED_FOLDER)
            for folder in sorted((self.path / VALIDATION_FOLDER).glob("step-*"), reverse=True):
                if folder.name > step_name(max(step, 0)) or step < 0:
                    _take_out(folder)

    def close(self) -> None:
        """Let go of the run. Closing twice is fine."""
        self.metrics.close()
        self._lock.close()

    def _check_open(self) -> None:
        if self._lock.closed:
            raise RewardContractError(f"the run {self.path.name!r} is closed: open it again")


def _take_out(folder: Path) -> None:
    """Remove a folder so that a kill leaves it whole, or under a name that the next writer sweeps out."""
    leaving = folder.with_name(f".{folder.name}{REMOVED}")
    if leaving.exists():
        shutil.rmtree(leaving)
    folder.rename(leaving)
    sync_folder(folder.parent)
    shutil.rmtree(leaving)


def _save(path: Path, step: int, identity: StageIdentity, report: RewardReport) -> RewardState:
    state = RewardState(step=step, stage_sha256=identity.sha256, stage=identity, report=report)
    put(path / STATE_FILE, state.encode())
    return state
