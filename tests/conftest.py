# SPDX-License-Identifier: Apache-2.0
"""Settings and fixtures that every test shares."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import settings

from posttrain.cli import main

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


Done: TypeAlias = subprocess.CompletedProcess[str]

# What would change the look of an output on some machines.
_LOOKS = ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TERMINAL_WIDTH", "LINES", "PYTHONIOENCODING")


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Run the `posttrain` command in this process, by default in `tmp_path`; gives its exit code and what it wrote."""

    def run(*arguments: str | Path, cwd: Path = tmp_path) -> Done:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["posttrain", *map(str, arguments)])
            patch.setattr(sys, "path", list(sys.path))
            patch.setenv("COLUMNS", "80")
            for name in _LOOKS:
                patch.delenv(name, raising=False)
            patch.chdir(cwd)
            capsys.readouterr()
            code: Any = 0
            try:
                main()
            except SystemExit as end:
                code = end.code or 0
            out, err = capsys.readouterr()
        return subprocess.CompletedProcess(list(map(str, arguments)), code, out, err)

    return run


@pytest.fixture
def shell(tmp_path: Path) -> Callable[..., Done]:
    """Run the `posttrain` command as a process of its own, by default in `tmp_path`."""

    def run(*arguments: str | Path, cwd: Path = tmp_path, **environment: str) -> Done:
        plain = {name: value for name, value in os.environ.items() if name not in _LOOKS}
        return subprocess.run(
            [sys.executable, "-m", "posttrain", *map(str, arguments)],
            cwd=cwd,
            env={**plain, "COLUMNS": "80", **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Write a file into `tmp_path`: text or bytes as they are, anything else as one JSON line for each item."""

    def write(name: str, content: Any) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif isinstance(content, str):
            path.write_text(content, encoding="utf-8")
        else:
            path.write_text("".join(json.dumps(row) + "\n" for row in content), encoding="utf-8")
        return path

    return write
