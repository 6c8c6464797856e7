# SPDX-License-Identifier: Apache-2.0
"""Every source file says its licence in its first line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

TAG = "# SPDX-License-Identifier: Apache-2.0"
RULE = f"the first line of a .py, .toml or .sh file and of a Makefile is {TAG!r} (the second, after a #! line)"

# Made by tools or by runs, and never tracked.
_SKIPPED = (".git", ".venv", "node_modules", "__pycache__", ".hypothesis", ".eggs")
_SKIPPED_AT_THE_TOP = {"dist", "build", "out", "runs"}


def _files(root: Path) -> list[Path]:
    found = []
    for folder, folders, names in os.walk(root):
        here = Path(folder)
        folders[:] = [
            name
            for name in folders
            if not name.endswith(("_cache", ".egg-info"))
            and not name.startswith(_SKIPPED)
            and not (here == root and name in _SKIPPED_AT_THE_TOP)
        ]
        found += [here / name for name in names if name == "Makefile" or name.endswith((".py", ".toml", ".sh"))]
    return sorted(found)


def licence_faults(root: Path) -> list[str]:
    """Every file without the tag where it belongs."""
    faults = []
    for file in _files(root):
        lines = file.read_text().splitlines()[:2]
        if lines and lines[0].startswith("#!"):
            lines = lines[1:]
        if lines[:1] != [TAG]:
            faults.append(str(file.relative_to(root)))
    return faults


def test_every_source_file_says_its_licence(repository: Path) -> None:
    """No file of the checkout lacks the tag."""
    faults = licence_faults(repository)
    assert not faults, "\n".join([RULE, *faults])


@pytest.mark.parametrize(
    "text",
    ["", "x = 1\n", f"\n{TAG}\n", f"x = 1\n{TAG}\n", f"{TAG} or later\n", "#!/bin/sh\n", f"#!/bin/sh\n\n{TAG}\n"],
)
@pytest.mark.parametrize("name", ["a.py", "deep/er/b.toml", "Makefile", ".ci/run.sh", "src/posttrain/runs/c.py"])
def test_a_missing_licence_is_found(tmp_path: Path, name: str, text: str) -> None:
    """An empty file, a tag on another line or another licence fails, in every kind of file."""
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(text)
    (tmp_path / "good.py").write_text(f"{TAG}\n")
    (tmp_path / "good.sh").write_text(f"#!/bin/sh\n{TAG}\n")
    (tmp_path / "notes.md").write_text("no tag\n")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "foreign.py").write_text("")
    assert licence_faults(tmp_path) == [name]
