# SPDX-License-Identifier: Apache-2.0
"""Files of rollouts for the tests of this folder."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

WriteRows: TypeAlias = Callable[..., Path]


@pytest.fixture
def rows(tmp_path: Path) -> WriteRows:
    """Writes rows, as objects or as raw lines, to a JSONL file."""

    def write(*lines: dict[str, Any] | str | bytes, name: str = "rollouts.jsonl", end: bytes = b"\n") -> Path:
        path = tmp_path / name
        path.write_bytes(b"".join(_line(line) + end for line in lines))
        return path

    return write


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
