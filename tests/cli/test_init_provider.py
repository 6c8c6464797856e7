# SPDX-License-Identifier: Apache-2.0
"""`posttrain init-provider`: the package that it writes works, and it writes the whole of it or nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FILES = [
    "README.md",
    "pyproject.toml",
    "rollouts.jsonl",
    "src/my_rewards/__init__.py",
    "src/my_rewards/py.typed",
    "tests/test_rewards.py",
]


def files(folder: Path) -> list[str]:
    """Every file below a folder."""
    return sorted(each.relative_to(folder).as_posix() for each in folder.rglob("*") if each.is_file())


def tool(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a module of the development tools in a fresh process."""
    return subprocess.run(
        [sys.executable, "-m", *arguments], cwd=cwd, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture
def package(command: Callable[..., Any], tmp_path: Path) -> Path:
    """A generated package."""
    assert command("init-provider", "my_rewards").returncode == 0
    return tmp_path / "my_rewards"


def test_it_writes_a_package_and_says_how_to_go_on(command: Callable[..., Any], tmp_path: Path) -> None:
    """The files are there with every placeholder filled, nothing else is, and the next steps are printed."""
    done = command("init-provider", "deep/my_rewards")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "wrote deep/my_rewards. Try it:",
        "  cd deep/my_rewards && pip install -e . && pytest",
        "  posttrain score rollouts.jsonl --catalog my_rewards:catalog --reward mentions --group-size 2",
    ]
    assert files(tmp_path) == [f"deep/my_rewards/{name}" for name in FILES]
    assert [each.name for each in (tmp_path / "deep").iterdir()] == ["my_rewards"]
    for name in FILES:
        assert "{{" not in (tmp_path / "deep/my_rewards" / name).read_text()


def test_its_own_tests_pass(package: Path) -> None:
    """Pytest passes in a fresh process, with warnings as errors."""
    done = tool("pytest", "-q", "-W", "error", "-p", "no:cacheprovider", cwd=package)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_it_is_clean(package: Path) -> None:
    """ruff, its formatter and mypy --strict find nothing."""
    ruff = pytest.importorskip("ruff").__name__
    pytest.importorskip("mypy")
    cache = str(package.parent / "cache")
    checks = [
        (ruff, "check", "--no-cache", "."),
        (ruff, "format", "--check", "--no-cache", "."),
        ("mypy", "--strict", "--cache-dir", cache, "src", "tests"),
    ]
    for check in checks:
        done = tool(*check, cwd=package)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_printed_command_scores_its_rollouts(package: Path, shell: Callable[..., Any]) -> None:
    """The rollouts that come with it get the numbers that one reads off them."""
    options = ("--catalog", "my_rewards:catalog", "--reward", "mentions", "--group-size", "2")
    done = shell("score", "rollouts.jsonl", *options, cwd=package, PYTHONPATH=str(package / "src"))
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    # Paris is mentioned in one of two, Rome in both, one of the four was cut: 3/4, and 3/16 is the variance.
    assert lines[2] == "reward          0.7500 ± 0.4330, 0 to 1"
    assert lines[4] == "zero spread     50.0% of the scored groups"
    assert lines[5] == "truncated       25.0%"


@pytest.mark.parametrize(
    ("name", "package"),
    [("my-rewards", "my_rewards"), ("My Rewards", "my_rewards"), ("rewards2", "rewards2"), ("_a.b_", "a_b")],
)
def test_names_that_are_mapped(command: Callable[..., Any], tmp_path: Path, name: str, package: str) -> None:
    """The folder keeps its name; the package's has underscores and small letters, the project's has dashes."""
    done = command("init-provider", name)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / name / "src" / package / "__init__.py").is_file()
    project = (tmp_path / name / "pyproject.toml").read_text()
    assert f'name = "{package.replace("_", "-")}"' in project
    assert f'packages = ["src/{package}"]' in project
    assert f"--catalog {package}:catalog" in done.stdout


def test_a_name_with_a_space_is_quoted(command: Callable[..., Any]) -> None:
    """The printed command can be pasted."""
    assert "  cd 'My Rewards' && " in command("init-provider", "My Rewards").stdout


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("2fast", "gives no package name"),
        ("class", "gives no package name"),
        ("...", "gives no package name"),
        ("日本", "gives no package name"),
        ("json", "would hide the module 'json'"),
        ("posttrain", "would hide the module 'posttrain'"),
        (".", "is the folder that you stand in"),
        ("full", "exists and is not an empty folder"),
        ("file", "exists and is not an empty folder"),
        ("link", "exists and is not an empty folder"),
        ("dangling", "exists and is not an empty folder"),
        ("file/below", "can't be written"),
        ("/proc/none/below", "can't be written"),
    ],
)
def test_names_that_are_refused(command: Callable[..., Any], tmp_path: Path, name: str, message: str) -> None:
    """A name that makes no package, or a place that is taken, is refused by name, and nothing is written."""
    home = tmp_path / "home_of_test"
    (home / "full").mkdir(parents=True)
    (home / "full" / "kept").write_text("kept")
    (home / "file").write_text("kept")
    (home / "empty").mkdir()
    (home / "link").symlink_to("empty")
    (home / "dangling").symlink_to("nowhere")
    before = sorted(each.as_posix() for each in tmp_path.rglob("*"))
    done = command("init-provider", name, cwd=home)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("posttrain: set-up: ")
    assert message in done.stderr
    assert sorted(each.as_posix() for each in tmp_path.rglob("*")) == before
    assert (home / "full" / "kept").read_text() == "kept"


def test_an_empty_folder_is_taken(command: Callable[..., Any], tmp_path: Path) -> None:
    """A folder without files in it may be there already."""
    (tmp_path / "my_rewards").mkdir()
    assert command("init-provider", "my_rewards").returncode == 0
    assert files(tmp_path / "my_rewards") == FILES


def test_the_package_can_be_read_by_others(package: Path) -> None:
    """Its folders have the permissions that the umask gives, not those of a private scratch folder."""
    probe = package.parent / "probe"
    probe.mkdir()
    assert package.stat().st_mode == probe.stat().st_mode
    assert os.access(package / "pyproject.toml", os.R_OK)
