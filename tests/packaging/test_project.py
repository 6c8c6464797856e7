# SPDX-License-Identifier: Apache-2.0
"""What a release says of itself agrees with itself."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import posttrain


def test_the_change_log_names_the_version(repository: Path) -> None:
    """The newest entry is that of the package's version."""
    text = (repository / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (\S+)", text, re.MULTILINE)
    assert versions[0] == posttrain.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", versions[0])


def test_pinned_versions_are_in_the_ranges(repository: Path) -> None:
    """Every lower bound of the project is at most the version that the constraints pin."""
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [
        *project["dependencies"],
        *(each for extra in project["optional-dependencies"].values() for each in extra),
    ]
    bounds = {
        name.lower().replace("_", "-"): low
        for name, low in (re.findall(r"^([\w-]+)(?:\[.*\])?(?:>=([\d.]+))?", each)[0] for each in wanted)
        if low
    }
    pinned = dict(re.findall(r"^([\w-]+)==([\d.]+)", (repository / "constraints.txt").read_text(), re.MULTILINE))
    assert {"msgspec", "typer", "rich"} <= bounds.keys() & pinned.keys()
    too_old = {name for name in bounds.keys() & pinned.keys() if _parts(pinned[name]) < _parts(bounds[name])}
    assert too_old == set()


def _parts(version: str) -> list[int]:
    return [int(each) for each in version.split(".")]


def test_the_gate_is_the_one_of_the_documentation(repository: Path) -> None:
    """`.ci/run` runs the demo on the bare core, the gate, and the test command that the README names."""
    script = (repository / ".ci/run").read_text(encoding="utf-8")
    assert re.findall(r"^make (\w+)", script, re.MULTILINE) == ["demo", "check", "test"]
    assert (repository / ".ci/run").stat().st_mode & 0o111
    assert "make test" in (repository / "README.md").read_text(encoding="utf-8")
