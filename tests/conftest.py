# SPDX-License-Identifier: Apache-2.0
"""Settings and fixtures that every test shares."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# Deadlines fail on a busy machine; the same examples on each run make a failure come back without a database.
settings.register_profile("posttrain", deadline=None, max_examples=80, derandomize=True, database=None)
settings.load_profile("posttrain")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def source(repository: Path) -> Path:
    """The folder that holds the package `posttrain`."""
    return repository / "src"


@pytest.fixture(scope="session")
def fresh_python() -> Callable[[str], str]:
    """Run a program in a fresh interpreter, isolated from the environment; gives what it writes to standard output."""

    def run(program: str) -> str:
        done = subprocess.run(
            [sys.executable, "-I", "-c", program], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def pickled() -> Callable[..., Any]:
    """What comes back when a value is pickled and read again, as between two processes."""

    def through(value: Any, protocol: int | None = None) -> Any:
        return pickle.loads(pickle.dumps(value, protocol))  # noqa: S301  # we wrote the bytes ourselves

    return through
