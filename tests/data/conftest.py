# SPDX-License-Identifier: Apache-2.0
"""Files and datasets for the tests of this folder."""

from __future__ import annotations

import gzip
import importlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import zstandard

WriteRows: TypeAlias = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> WriteRows:
    """Writes rows, as objects or as raw lines, to a JSONL file, which is compressed as its suffix says."""

    def write_rows(*lines: dict[str, Any] | str | bytes, name: str = "rows.jsonl", end: bytes = b"\n") -> Path:
        path = tmp_path / name
        content = b"".join(_line(line) + end for line in lines)
        if path.suffix == ".gz":
            content = gzip.compress(content)
        elif path.suffix == ".zst":
            content = zstandard.compress(content)
        path.write_bytes(content)
        return path

    return write_rows


def _line(row: dict[str, Any] | str | bytes) -> bytes:
    if isinstance(row, bytes):
        return row
    return row.encode() if isinstance(row, str) else json.dumps(row).encode()


@pytest.fixture(scope="session")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The module `datasets`, which reaches no network and keeps its cache in a folder of this run."""
    pytest.importorskip("datasets")
    module: Any = importlib.import_module("datasets")
    hub: Any = importlib.import_module("huggingface_hub.constants")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))
        patch.setattr(module.config, "HF_HUB_OFFLINE", True)
        patch.setattr(hub, "HF_HUB_OFFLINE", True)
        module.disable_progress_bars()
        yield module
