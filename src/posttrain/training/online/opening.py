# SPDX-License-Identifier: Apache-2.0
"""A run's folder, begun or gone on with, and where that leaves the training: told by the first process to all."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import msgspec

from posttrain.data import EnvState, RowSource
from posttrain.errors import RewardConfigError, listing
from posttrain.frozen import first_difference
from posttrain.rewards import RewardWorker
from posttrain.runs.config import RLConfig
from posttrain.runs.directory import Provenance, RecordSettings, RunDirectory, read_provenance
from posttrain.runs.records import PROVENANCE_FILE
from posttrain.training.online.checkpoints import CHECKPOINTS, Checkpoint, latest, sweep

__all__ = ["Opened", "open_run", "run_path"]


@final
class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run stands when a process begins to train."""

    path: str
    """Its folder, absolute."""
    checkpoint: str | None = None
    """Folder of the checkpoint that it goes on from, absolute; None: it begins."""
    step: int = 0
    batches: int = 0
    data: EnvState | None = None
    processes: int | None = None
    """How many trained the checkpoint."""
    warnings: tuple[str, ...] = ()


def run_path(config: RLConfig, kind: str) -> Path:
    """The folder of the run, absolute; a name is made where none is given."""
    name = config.run.name or f"{kind}-{time.strftime('%Y%m%d-%H%M%S')}"
    return Path(config.run.directory).absolute() / name


def open_run(
    config: RLConfig,
    worker: RewardWorker,
    rows: RowSource,
    *,
    path: Path,
    resume: bool,
    fixed: Mapping[str, Any],
) -> tuple[RunDirectory, Opened]:
    """Begin the run, or with `resume` go on with it if it is there.

    Args:
        config: the run's config.
        worker: of training.
        rows: the training rows.
        path: the run's folder.
        resume: whether a run that is there is gone on with.
        fixed: JSON that no resume may change, besides the reward.

    Raises:
        RewardConfigError: the run is there already, or is of another reward, or of something else that is fixed.
    """
    validation = config.rewards("val") if config.validation.enabled else ()
    # A file may have been named by its absolute path, which belongs to this machine.
    data = {"rows": {"title": Path(rows.title).name, "count": len(rows), "fingerprint": rows.fingerprint}}
    provenance = Provenance.of(worker.stage, validation=validation, data={**data, "fixed": dict(fixed)})
    settings = RecordSettings()
    if not resume or not (path / PROVENANCE_FILE).is_file():
        run = RunDirectory.create(
            path.parent, path.name, config_text=config.to_toml(), provenance=provenance, settings=settings
        )
        return run, Opened(path=str(path))
    _refuse_other(path, fixed)
    run = RunDirectory.resume(
        path,
        config_text=config.to_toml(),
        provenance=provenance,
        accept_identity=config.accept_identity,
        settings=settings,
    )
    try:
        return run, _gone_on(run, path)
    except BaseException:
        run.close()
        raise


def _gone_on(run: RunDirectory, path: Path) -> Opened:
    folder = path / CHECKPOINTS
    sweep(folder)
    found = latest(folder)
    if found is None:
        run.rewind(-1)
        return Opened(path=str(path), warnings=(*run.warnings, "there is no checkpoint yet: it begins anew"))
    checkpoint, place = found
    run.rewind(checkpoint.step)
    return _opened(path, checkpoint, place, run.warnings)


def _opened(path: Path, checkpoint: Checkpoint, place: Path, warnings: tuple[str, ...]) -> Opened:
    return Opened(
        path=str(path),
        checkpoint=str(place),
        step=checkpoint.step,
        batches=checkpoint.batches,
        data=checkpoint.data,
        processes=checkpoint.processes,
        warnings=warnings,
    )


def _refuse_other(path: Path, fixed: Mapping[str, Any]) -> None:
    recorded = read_provenance(path / PROVENANCE_FILE).data.get("fixed", {})
    keys = sorted({*recorded, *fixed})
    faults = [
        f"{key}: {found}"
        for key in keys
        if (found := first_difference(recorded.get(key), fixed.get(key), "recorded")) is not None
    ]
    if faults:
        raise RewardConfigError(
            f"{path} was begun with something else, which a run keeps to its end:\n{listing(faults)}\n"
            "Go on with what is recorded, or begin another run."
        )
