# SPDX-License-Identifier: Apache-2.0
"""The dumps that the tools wrote, and rows of a dump written by hand."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def data(repository: Path) -> Path:
    """The folder of dumps that each tool wrote itself."""
    return repository / "tests" / "rollouts" / "importers" / "data"


@pytest.fixture
def lines(tmp_path: Path) -> Callable[..., Path]:
    """Writes rows, as objects or as raw lines, to a JSONL file."""

    def write(rows: Sequence[dict[str, Any] | bytes], name: str = "dump.jsonl") -> Path:
        path = tmp_path / name
        path.write_bytes(
            b"".join((row if isinstance(row, bytes) else json.dumps(row).encode()) + b"\n" for row in rows)
        )
        return path

    return write
