# SPDX-License-Identifier: Apache-2.0
"""Files that are written whole or not at all, and are on the disk when the call returns."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from posttrain.errors import RewardConfigError

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["real_target", "replace_file", "sync_folder", "write_all", "write_atomically"]

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# What a file system says that keeps no folders of its own to sync.
_CANNOT_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.ENOSYS})


def write_atomically(path: str | Path, data: bytes | Iterable[bytes], *, mode: int = 0o644) -> None:
    """Put `data` in the place of `path`: at each moment, a crash included, the file is the old one or the new one.

    A temporary file in the same folder is written, synced to the disk and renamed, then the folder is synced. When
    anything fails or interrupts it, also from within `data`, the temporary is removed. A symbolic link stays one: the
    file that it points to is replaced. The new file takes nothing over from the old one, permissions included.

    Args:
        path: the file; its folder exists.
        data: the content, whole or in pieces.
        mode: permissions of the new file, before the umask.

    Raises:
        RewardConfigError: the folder is missing, or the file system refuses (no permission, no space, a folder of
            that name).
    """
    target = real_target(path)
    replace_file(target, target.with_name(f".posttrain-{secrets.token_hex(8)}.tmp"), data, mode=mode)


def replace_file(target: Path, temporary: Path, data: bytes | Iterable[bytes], *, mode: int) -> None:
    """`write_atomically` for a caller that names the temporary itself, in the target's folder and not there yet."""
    try:
        _write_new(temporary, (data,) if isinstance(data, bytes) else data, mode)
        temporary.replace(target)
        sync_folder(target.parent)
    except BaseException as error:
        # Whatever keeps the temporary from being removed, or made, the first failure is the one to tell.
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            raise RewardConfigError(f"can't write {target}: {error.strerror or error}") from error
        raise


def real_target(path: str | Path) -> Path:
    """The file that `path` stands for once symbolic links are followed; it need not exist, its folder must.

    Raises:
        RewardConfigError: the folder is missing, or there is a folder in the place of the file.
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise RewardConfigError(f"can't write {path}: there is no folder {target.parent}; make it first")
    if target.is_dir():
        raise RewardConfigError(f"can't write {path}: it is a folder; name a file in it")
    return target


def _write_new(path: Path, pieces: Iterable[bytes], mode: int) -> None:
    file = os.open(path, _NEW, mode)
    try:
        for piece in pieces:
            write_all(file, piece)
        os.fsync(file)
    finally:
        os.close(file)


def write_all(file: int, data: Buffer, offset: int | None = None) -> None:
    """Write all of `data`, at `offset` or where the file stands; a system call may take less than it is given."""
    rest = memoryview(data)
    while rest:
        written = os.write(file, rest) if offset is None else os.pwrite(file, rest, offset)
        offset = None if offset is None else offset + written
        rest = rest[written:]


def sync_folder(folder: Path) -> None:
    """Make sure that the names in a folder are on the disk, where the file system can."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise
    finally:
        os.close(file)
