# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that are whole or count for nothing: the trainer's own files, then a marker that says what they are.

The trainer writes a folder file by file, then the run's reward state is saved, then the marker. A kill anywhere before
the marker leaves a folder that no resume looks at and the next one removes. Old checkpoints go only after a marker.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, final

import msgspec

from posttrain.data import EnvState
from posttrain.errors import RewardConfigError
from posttrain.rollouts.atomic import sync_folder, write_atomically

__all__ = ["CHECKPOINTS", "Checkpoint", "finish", "latest", "sweep"]

CHECKPOINTS: Final = "checkpoints"
"""Folder of a run's checkpoints."""
_MARKER: Final = "posttrain.json"
_NAME: Final = re.compile(r"checkpoint-(\d+)")
_FORMAT: Final = 1


@final
class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the marker of a checkpoint says."""

    format: int = _FORMAT
    step: int
    stage_sha256: str
    """SHA-256 of the stage identity that its steps were scored with."""
    batches: int
    """Batches of prompts that were drawn for it."""
    data: EnvState
    """The place behind the last row that was drawn."""
    processes: int
    """How many trained it; each has a random state of its own in it."""


def finish(folder: Path, checkpoint: Checkpoint, *, keep: int) -> None:
    """Make a checkpoint count, then remove all but the latest `keep`.

    Args:
        folder: of all checkpoints of the run.
        checkpoint: what it is.
        keep: how many stay.

    Raises:
        RewardConfigError: the file system refuses.
    """
    own = folder / f"checkpoint-{checkpoint.step}"
    try:
        _synced(own)
        write_atomically(own / _MARKER, msgspec.json.format(msgspec.json.encode(checkpoint), indent=1) + b"\n")
        for _, old in sorted(_whole(folder), reverse=True)[keep:]:
            _remove(old)
    except OSError as error:
        raise RewardConfigError(f"can't save {own}: {error.strerror or error}") from error


def latest(folder: Path) -> tuple[Checkpoint, Path] | None:
    """The latest checkpoint that is whole; None: there is none.

    Raises:
        RewardConfigError: its marker can't be read.
    """
    found = max(_whole(folder), default=None)
    if found is None:
        return None
    marker = found[1] / _MARKER
    try:
        return msgspec.json.decode(marker.read_bytes(), type=Checkpoint), found[1]
    except (OSError, msgspec.DecodeError) as error:
        raise RewardConfigError(
            f"{marker} can't be read: {error}; remove its folder to go on from an earlier one"
        ) from error


def sweep(folder: Path) -> None:
    """Remove checkpoints that a kill has left half written.

    Raises:
        RewardConfigError: the file system refuses.
    """
    whole = {path for _, path in _whole(folder)}
    try:
        for path in folder.glob("checkpoint-*"):
            if path not in whole and _NAME.fullmatch(path.name):
                _remove(path)
    except OSError as error:
        raise RewardConfigError(f"can't clean {folder}: {error.strerror or error}") from error


def _whole(folder: Path) -> Iterator[tuple[int, Path]]:
    for path in folder.glob("checkpoint-*"):
        named = _NAME.fullmatch(path.name)
        if named and (path / _MARKER).is_file():
            yield int(named[1]), path


def _remove(path: Path) -> None:
    # The marker first: what is half removed is not whole.
    (path / _MARKER).unlink(missing_ok=True)
    shutil.rmtree(path)


def _synced(folder: Path) -> None:
    for file in folder.rglob("*"):
        if file.is_file():
            handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
    sync_folder(folder)
    sync_folder(folder.parent)
