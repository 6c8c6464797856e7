# SPDX-License-Identifier: Apache-2.0
"""What the files of a run have in common: how they are put in place, and how a refusal of the file system is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from posttrain.errors import RewardConfigError
from posttrain.rollouts.atomic import replace_file

__all__ = ["make_folder", "put", "refusals", "temporary_of"]


def put(path: Path, data: bytes | Iterable[bytes], *, mode: int = 0o644) -> None:
    """Write a file whole or not at all, see `posttrain.rollouts.atomic`; only one process at a time may do so.

    The temporary has a name that follows from the file's: what a killed process left, the next one removes.

    Raises:
        RewardConfigError: the file system refuses.
    """
    with refusals(path):
        temporary_of(path).unlink(missing_ok=True)
    replace_file(path, temporary_of(path), data, mode=mode)


def temporary_of(path: Path) -> Path:
    """The name under which `put` writes a file before it is whole."""
    return path.with_name(f".{path.name}.tmp")


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, where they are missing.

    Raises:
        RewardConfigError: the file system refuses.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RewardConfigError(f"the folder {folder} can't be made: {error.strerror or error}") from error


@contextmanager
def refusals(path: Path, what: str = "write") -> Iterator[None]:
    """Say a refusal of the file system as an error of the run's set-up."""
    try:
        yield
    except OSError as error:
        raise RewardConfigError(f"can't {what} {path}: {error.strerror or error}") from error
