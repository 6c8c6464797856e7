# SPDX-License-Identifier: Apache-2.0
"""The built wheel, installed where nothing of the checkout can be imported, is the whole package."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable
from email.parser import Parser
from pathlib import Path

import pytest

import posttrain

# Takes the place of the interpreter's own start: what an editable install puts on the import path is not read.
_COMMAND = """
import sys
import posttrain
assert posttrain.__file__.startswith(sys.argv[1]), posttrain.__file__
assert not any("src" in path.split("/") and "posttrain" in path for path in sys.path)
sys.argv[:] = ["posttrain", *sys.argv[2:]]
from posttrain.cli import main
main()
"""


def run(*arguments: str, cwd: Path) -> None:
    """Run a program that has to succeed."""
    done = subprocess.run(arguments, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the checkout."""
    pytest.importorskip("hatchling", reason="the build backend is not installed")
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder), cwd=repository)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the wheel was installed."""
    target = tmp_path_factory.mktemp("installed")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, "--no-deps", "--no-index", "--no-compile", "--target", str(target), str(wheel), cwd=target)
    return target


@pytest.fixture
def installed_command(installed: Path, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command of the installed wheel; its dependencies come from this environment, the package does not."""
    path = os.pathsep.join([str(installed), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-S", "-P", "-c", _COMMAND, str(installed), *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path, "COLUMNS": "80"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return call


def test_the_wheel_has_every_file_of_the_package(wheel: Path, source: Path) -> None:
    """Modules, templates and the marker of types are in it, and nothing that is not in the sources."""
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if name.startswith("posttrain/")}
        assert set(archive.namelist()) - held == {
            name for name in archive.namelist() if name.startswith(f"posttrain-{posttrain.__version__}.dist-info/")
        }
    files = {
        each.relative_to(source).as_posix()
        for each in (source / "posttrain").rglob("*")
        if each.is_file() and "__pycache__" not in each.parts
    }
    assert held == files
    assert {"posttrain/py.typed", "posttrain/cli/template/rewards.py.txt"} <= held


def test_the_metadata(wheel: Path, repository: Path) -> None:
    """Version, licence, the Python that is needed and the README are what the sources say."""
    with zipfile.ZipFile(wheel) as archive:
        folder = f"posttrain-{posttrain.__version__}.dist-info"
        text = archive.read(f"{folder}/METADATA").decode()
        entries = archive.read(f"{folder}/entry_points.txt").decode()
        assert archive.read(f"{folder}/licenses/LICENSE") == (repository / "LICENSE").read_bytes()
    found = Parser().parsestr(text)
    assert found["Version"] == posttrain.__version__
    assert found["License-Expression"] == "Apache-2.0"
    assert found["Requires-Python"] == ">=3.11"
    assert found.get_payload() == (repository / "README.md").read_text(encoding="utf-8")
    assert "posttrain = posttrain.cli:main" in entries


def test_the_demo_runs_from_the_wheel(
    installed_command: Callable[..., subprocess.CompletedProcess[str]], repository: Path, tmp_path: Path
) -> None:
    """The demo's command scores the shipped rollouts with the installed package alone."""
    makefile = (repository / "Makefile").read_text(encoding="utf-8")
    (line,) = re.findall(r"^\t\$\(BIN\)/posttrain (score .*)$", makefile, re.MULTILINE)
    (tmp_path / "examples").symlink_to(repository / "examples")
    done = installed_command(*shlex.split(line))
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^candidates +384 *$", done.stdout, re.MULTILINE)
    assert (tmp_path / "out/scored.jsonl").read_text().count("\n") == 384


def test_the_templates_work_from_the_wheel(
    installed_command: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """`init-provider` finds its templates in the installed package."""
    done = installed_command("init-provider", "mine")
    assert (done.returncode, done.stderr) == (0, "")
    assert "def score_candidate" in (tmp_path / "mine/src/mine/__init__.py").read_text()
    assert installed_command("--version").stdout == f"posttrain {posttrain.__version__}\n"


def test_types_come_with_the_wheel(installed: Path, tmp_path: Path) -> None:
    """A type checker sees the types of the installed package."""
    pytest.importorskip("mypy")
    (tmp_path / "use.py").write_text(
        "from posttrain.rewards import RewardWorker\n\nreveal_type(RewardWorker(reward='x', group_size=1).identity)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-site-packages", "--follow-imports", "silent", "use.py"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(installed), "MYPY_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert 'Revealed type is "tuple[posttrain.rewards.catalog.identity.ProviderIdentity, ...]"' in done.stdout.replace(
        "builtins.tuple", "tuple"
    )
