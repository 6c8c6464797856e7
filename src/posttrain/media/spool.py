# SPDX-License-Identifier: Apache-2.0
"""Private files without a name: what a rank spools for one request vanishes with its descriptor, even after SIGKILL."""

from __future__ import annotations

import errno
import os
import tempfile
from typing import Final, Self, final

from posttrain.errors import RewardConfigError

__all__ = ["SpoolFile", "check_spool"]

_MODE: Final = 0o600
_HERE_ONLY: Final = getattr(os, "O_TMPFILE", 0)
_NO_UNNAMED: Final = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT})
"""What a file system, or a kernel, says that has no unnamed files."""
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@final
class SpoolFile:
    """A private file (0600) that has no name, open for reading and writing; gone when it is closed."""

    def __init__(self, directory: str | None, nbytes: int) -> None:
        """Make the file and look at the free space, before the first byte.

        Args:
            directory: where its bytes lie; None: the platform's temporary directory.
            nbytes: how many bytes will be written.

        Raises:
            RewardConfigError: no file can be made there, or the space is too small; the numbers are in the error.
        """
        self._folder = tempfile.gettempdir() if directory is None else directory
        self._nbytes = nbytes
        self._descriptor = _unnamed(self._folder)
        free = _free(self._descriptor)
        if free < nbytes:
            self.close()
            raise self._too_small(free)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the bytes. Closing twice is no error."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def fileno(self) -> int:
        """The descriptor; it is not inherited unless passed on."""
        return self._descriptor

    def write(self, data: memoryview | bytes) -> None:
        """Write every byte, however few the system takes at a time.

        Raises:
            RewardConfigError: the space ran out on the way: somebody else took it.
        """
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            if error.errno in _FULL:
                raise self._too_small(_free(self._descriptor)) from error
            raise

    def _too_small(self, free: int) -> RewardConfigError:
        return RewardConfigError(
            f"the spool folder {self._folder!r} has {free:,} bytes free, one sample needs {self._nbytes:,}: set "
            "spool_dir to storage of this machine that holds one sample of each rank, or lower max_sample_bytes where "
            "nothing so large is sent"
        )


def check_spool(directory: str | None, nbytes: int) -> None:
    """Look whether a sample of `nbytes` can be spooled here now; keeps nothing.

    Raises:
        RewardConfigError: see `SpoolFile`.
    """
    SpoolFile(directory, nbytes).close()


def _unnamed(folder: str) -> int:
    try:
        if _HERE_ONLY:
            try:
                return os.open(folder, os.O_RDWR | _HERE_ONLY | os.O_EXCL, _MODE)
            except OSError as error:
                if error.errno not in _NO_UNNAMED:
                    raise
        # A kill between these two lines leaves an empty file behind; there is no better way without unnamed files.
        descriptor, path = tempfile.mkstemp(prefix="posttrain-spool-", dir=folder)
        try:
            os.unlink(path)  # noqa: PTH108  # not a path that anybody else will see
        except OSError:
            os.close(descriptor)
            raise
    except OSError as error:
        raise RewardConfigError(
            f"no spool file can be made in {folder!r} ({error.strerror or error}): set spool_dir to a folder of this "
            "machine that exists and that this user may write to"
        ) from error
    return descriptor


def _free(descriptor: int) -> int:
    """Bytes that this user may still write to the file's file system."""
    found = os.fstatvfs(descriptor)
    return found.f_bavail * found.f_frsize
