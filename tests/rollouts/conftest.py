# SPDX-License-Identifier: Apache-2.0
"""Files of rollouts for the tests of this folder."""

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import posttrain.rollouts
from interrupting import interrupt_at

WriteRows: TypeAlias = Callable[..., Path]


@pytest.fixture
def rows(tmp_path: Path) -> WriteRows:
    """Writes rows, as objects or as raw lines, to a JSONL file."""

    def write(*lines: dict[str, Any] | str | bytes, name: str = "rollouts.jsonl", end: bytes = b"\n") -> Path:
        path = tmp_path / name
        path.write_bytes(b"".join(_line(line) + end for line in lines))
        return path

    return write


@pytest.fixture
def quick_path() -> Iterator[Path]:
    """An empty folder in memory where the machine has one: syncing costs nothing there, and a kill is the same."""
    shared = Path("/dev/shm")  # noqa: S108  # the folder that is made in it is private
    usable = shared.is_dir() and os.access(shared, os.W_OK)
    with tempfile.TemporaryDirectory(dir=shared if usable else None) as folder:
        yield Path(folder)


def _line(row: dict[str, Any] | str | bytes) -> bytes:
    if isinstance(row, bytes):
        return row
    return row.encode() if isinstance(row, str) else json.dumps(row).encode()


@pytest.fixture
def group() -> Callable[..., list[dict[str, Any]]]:
    """Makes the candidate rows of one group."""

    def make(group_id: str, completions: Iterable[str], **more: object) -> list[dict[str, Any]]:
        return [{"group_id": group_id, "completion": completion, **more} for completion in completions]

    return make


@pytest.fixture
def interrupted() -> Callable[[Callable[[], object], int], bool]:
    """Does some work with a KeyboardInterrupt before the n-th line that the package runs; says whether it came."""
    return partial(interrupt_at, posttrain.rollouts)
