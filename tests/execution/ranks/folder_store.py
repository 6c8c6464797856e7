# SPDX-License-Identifier: Apache-2.0
"""A store for ranks that are processes of one machine: each key is a file."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import final

__all__ = ["FolderStore"]


@final
class FolderStore:
    """See `posttrain.execution.ranks.RankStore`. Files are written whole, and a key is claimed by a link."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _path(self, key: str) -> Path:
        return self._folder / key.replace("/", "-")

    def _written(self, key: str, value: bytes) -> Path:
        path = self._path(f"{key}.{os.getpid()}.part")
        path.write_bytes(value)
        return path

    def set(self, key: str, value: bytes) -> None:
        """Write a key."""
        self._written(key, value).replace(self._path(key))

    def get(self, key: str) -> bytes:
        """Read a key."""
        return self._path(key).read_bytes()

    def check(self, keys: list[str]) -> bool:
        """Whether all are there."""
        return all(self._path(key).exists() for key in keys)

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        """Write a key that is absent."""
        assert not expected
        part = self._written(key, desired.encode())
        with suppress(FileExistsError):
            self._path(key).hardlink_to(part)
        part.unlink()
        return self.get(key)

    def delete_key(self, key: str) -> bool:
        """Remove a key."""
        there = self.check([key])
        self._path(key).unlink(missing_ok=True)
        return there
