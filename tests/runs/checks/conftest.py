# SPDX-License-Identifier: Apache-2.0
"""Preflight of the catalogs in ``providers``, in an empty working directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.runs import RLConfig, load_config
from posttrain.runs.checks import PreflightReport, preflight

Flight = Callable[..., PreflightReport]


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., RLConfig]:
    """The config of a run whose catalog is one in ``providers``, with the provider ``it``; overrides may follow."""
    monkeypatch.chdir(tmp_path)
    folder = Path(__file__).parent / "providers"
    files = {file.name: file.read_text() for file in sorted(folder.glob("*.py"))}

    def make(misdeed: str, *overrides: str) -> RLConfig:
        file = next((name for name, text in files.items() if f"def {misdeed}(" in text), "misdeeds.py")
        catalog = [f"rl.reward_catalog={file}:{misdeed}", f"rl.reward_catalog_folder={folder}"]
        return load_config(None, ["rl.reward=it", "rl.group_size=2", *catalog, *overrides])

    return make


@pytest.fixture
def flight(configured: Callable[..., RLConfig]) -> Flight:
    """The report on one of the catalogs in ``providers``."""

    def run(misdeed: str, *overrides: str, **settings: Any) -> PreflightReport:
        return preflight(configured(misdeed, *overrides), **settings)

    return run


@pytest.fixture
def found() -> Callable[[PreflightReport], dict[str, tuple[str, ...]]]:
    """Name of each check that failed or warned, with its lines; the name of a warning begins with ``?``."""

    def look(report: PreflightReport) -> dict[str, tuple[str, ...]]:
        marks = {"failed": "", "warning": "?"}
        return {marks[it.verdict] + it.name: it.lines for it in report.checks if it.verdict in marks}

    return look
