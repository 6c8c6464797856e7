# SPDX-License-Identifier: Apache-2.0
"""A run's folder comes into being whole, belongs to one writer at a time, and is swept of what a kill left behind.

    create    .NAME.new beside the target is made and locked, filled, synced, then renamed to NAME in one system call
    open      the lock file in it is locked

The lock moves along with the rename, so that nobody gets in between. A lock ends with its process, however that ends.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from posttrain.errors import RewardConfigError, describe
from posttrain.rollouts.atomic import sync_folder
from posttrain.runs.records import (
    CONFIG_FILE,
    METRICS_FILE,
    PROVENANCE_FILE,
    SCORED_FOLDER,
    STATE_FILE,
    VALIDATION_FOLDER,
)
from posttrain.runs.sinks.files import make_folder, refusals, temporary_of

__all__ = ["LOCK_FILE", "REMOVED", "locked_new", "locked_run"]

LOCK_FILE: Final = ".lock"
"""Holds the lock of a run, and nothing else."""
REMOVED: Final = ".removed"
"""End of the name of a folder that is on its way out."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}", re.ASCII)
_PRIVATE: Final = 0o600
_TAKEN: Final = frozenset({errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR})


def locked_new(root: Path, name: str, fill: Callable[[Path], None]) -> tuple[Path, io.FileIO]:
    """Make the folder of a new run, and lock it for this process.

    Args:
        root: where runs lie; made if it is missing.
        name: name of the run, one segment of a path.
        fill: writes the first files into the folder that it is given.

    Raises:
        RewardConfigError: the name is not valid, something of that name is there, another process is making it, or
            the file system refuses.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RewardConfigError(
            f"name of a run: expected up to 200 letters, digits and any of _ . - after a first letter or digit, got "
            f"{describe(name)}"
        )
    make_folder(root)
    target, staging = root / name, root / f".{name}.new"
    taken = RewardConfigError(f"{target} is there already: go on with that run, or give the new one another name")
    with refusals(target):
        if os.path.lexists(target) and not (target.is_dir() and not any(target.iterdir())):
            raise taken
        staging.mkdir(exist_ok=True)
        lock = _locked(staging)
        with _closed_on_failure(lock):
            for left in staging.iterdir():
                if left.name != LOCK_FILE:
                    _remove(left)
            fill(staging)
            sync_folder(staging)
            try:
                # Onto an empty folder this succeeds, onto anything else it fails: the kernel decides, not a look.
                staging.rename(target)
            except OSError as error:
                if error.errno in _TAKEN:
                    raise taken from error
                raise
            sync_folder(root)
    return target, lock


def locked_run(path: Path) -> io.FileIO:
    """Lock the folder of a run for this process, and sweep out what a killed one left half done.

    Raises:
        RewardConfigError: there is no run, another process has it, or the file system refuses.
    """
    if not (path / PROVENANCE_FILE).is_file():
        raise RewardConfigError(f"{path} is no run: it has no {PROVENANCE_FILE}; begin one, or name its folder")
    with refusals(path):
        lock = _locked(path)
        with _closed_on_failure(lock):
            for left in _half_done(path):
                _remove(left)
    return lock


def _half_done(path: Path) -> Iterator[Path]:
    for name in (CONFIG_FILE, METRICS_FILE, PROVENANCE_FILE, STATE_FILE):
        yield temporary_of(path / name)
    yield from (path / SCORED_FOLDER).glob(".step-*.tmp")
    yield from (path / VALIDATION_FOLDER).glob(f".step-*{REMOVED}")


def _remove(left: Path) -> None:
    if left.is_dir() and not left.is_symlink():
        shutil.rmtree(left)
    else:
        left.unlink(missing_ok=True)


def _locked(folder: Path) -> io.FileIO:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    # An object, not a bare descriptor: wherever an interrupt comes, the lock goes with the last reference.
    lock = io.FileIO(folder / LOCK_FILE, "r+", opener=lambda name, _: os.open(name, flags, _PRIVATE))
    with _closed_on_failure(lock):
        try:
            fcntl.flock(lock.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RewardConfigError(
                f"{folder} is being written by another process: wait for it, or choose another run"
            ) from error
        try:
            is_here = os.path.samestat(os.fstat(lock.fileno()), (folder / LOCK_FILE).stat())
        except FileNotFoundError:
            is_here = False
        if not is_here:
            raise RewardConfigError(f"{folder} was made by another process just now: look again")
    return lock


@contextmanager
def _closed_on_failure(lock: io.FileIO) -> Iterator[None]:
    # Not left to the last reference: the error's own traceback holds one.
    try:
        yield
    except BaseException:
        lock.close()
        raise
