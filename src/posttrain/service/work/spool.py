# SPDX-License-Identifier: Apache-2.0
"""Uploaded arrays on disk: private files in a folder that goes away with the server, or with the next one."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, final

from posttrain.errors import RewardConfigError

__all__ = ["Spool", "SpooledFile"]

_NAME: Final = "posttrain-serve-"
_LOCK: Final = "lock"


@final
class Spool:
    """A folder of this server, 0700, under `parent`. Folders of servers that died are removed when one is opened.

    Args:
        parent: an existing folder; None: the platform's temporary directory.
        limit: bytes that all files together may take.

    Raises:
        RewardConfigError: no folder can be made there.
    """

    def __init__(self, parent: Path | None, *, limit: int) -> None:
        self._parent = Path(tempfile.gettempdir()) if parent is None else parent
        self._limit = limit
        self.used = 0
        """Bytes that are taken or promised."""
        self._count = 0
        _remove_left_behind(self._parent)
        try:
            self.folder = Path(tempfile.mkdtemp(prefix=_NAME, dir=self._parent))
            self._lock = _locked(self.folder / _LOCK)
        except OSError as error:
            raise RewardConfigError(f"the spool folder {self._parent}: {error.strerror or error}") from error

    def reserve(self, size: int) -> SpooledFile | None:
        """Room for a file of that size; None: there is none at the moment."""
        if self.used + size > self._limit:
            return None
        self._count += 1
        self.used += size
        return SpooledFile(self.folder / f"{self._count}.npy", size, self._give_back)

    def close(self) -> None:
        """Remove the folder and all that is in it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)

    def _give_back(self, size: int) -> None:
        self.used -= size


@final
class SpooledFile:
    """One upload, 0600. Written from its beginning, once; removed when it is no longer needed.

    Args:
        path: where.
        size: bytes that it has in the end.
        given_back: told the size when it is removed.
    """

    def __init__(self, path: Path, size: int, given_back: Callable[[int], None]) -> None:
        self.path = path
        self.size = size
        self.written = 0
        self._given_back: Callable[[int], None] | None = given_back
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._open = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append.

        Raises:
            OSError: the disk is full, or fails.
        """
        view = memoryview(data)
        while view:
            done = os.write(self._file, view)
            self.written += done
            view = view[done:]

    def finish(self) -> None:
        """Close it for writing."""
        if self._open:
            self._open = False
            os.close(self._file)

    def remove(self) -> None:
        """Close and remove it; a second time does nothing."""
        self.finish()
        if self._given_back is not None:
            given_back, self._given_back = self._given_back, None
            self.path.unlink(missing_ok=True)
            given_back(self.size)


def _locked(path: Path) -> int:
    """A file that is locked as long as this process lives, however it ends; it gets its name once it is locked."""
    fresh = path.with_suffix(".new")
    lock = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fresh.rename(path)
    except BaseException:
        os.close(lock)
        raise
    return lock


def _remove_left_behind(parent: Path) -> None:
    for folder in parent.glob(f"{_NAME}*"):
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            # Not ours, or so new that it has no lock of that name yet.
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            # Its server lives.
            continue
        finally:
            os.close(lock)
