# SPDX-License-Identifier: Apache-2.0
"""Catalogs as an operator writes them: modules on the import path and single files."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

CATALOG = """
from functools import partial

from posttrain.rewards import RewardProviderResult, RewardProviderSpec, map_candidates

LOADED = []


def score(candidate, context):
    return RewardProviderResult({{"task": {value}}})


def catalog():
    LOADED.append("called")
    return {{"mine": RewardProviderSpec(factory=partial(map_candidates, score), revision="1", terms=("task",))}}
"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """`write("folder/name.py", text)` makes a file below the test's folder; without a text, a catalog that pays 1.0."""

    def make(name: str, text: str | None = None, *, value: float = 1.0) -> Path:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(CATALOG.format(value=value) if text is None else textwrap.dedent(text))
        return file

    return make


@pytest.fixture
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The test's folder, on the import path; what is imported from it is forgotten afterwards."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]
