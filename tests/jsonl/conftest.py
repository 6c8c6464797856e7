# SPDX-License-Identifier: Apache-2.0
"""JSONL files for the tests of this folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def rows(tmp_path: Path) -> Callable[..., Path]:
    """Writes rows, as objects or as raw lines, to a JSONL file."""

    def write(*lines: dict[str, Any] | str | bytes, name: str = "a.jsonl", end: bytes = b"\n") -> Path:
        path = tmp_path / name
        texts = [json.dumps(line) if isinstance(line, dict) else line for line in lines]
        path.write_bytes(b"".join((text.encode() if isinstance(text, str) else text) + end for text in texts))
        return path

    return write
