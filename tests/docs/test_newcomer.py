# SPDX-License-Identifier: Apache-2.0
"""The newcomer's path of the README, run as it is typed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

SECTION = re.compile(r"## From an idea to a comparison\n(.*?)\n## ", re.DOTALL)
BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)


def _run(script: str, folder: Path) -> str:
    """Run a block of shell in `folder`; the command and the new package stand for what pip would have installed."""
    found = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": "src"}
    done = subprocess.run(
        ["sh", "-e", "-c", script],
        cwd=folder,
        env=os.environ | found,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_newcomers_path_works_as_typed(repository: Path, tmp_path: Path) -> None:
    """A package, its preflight, scores, a report, a change, and a comparison that shows what the change did."""
    section = SECTION.search((repository / "README.md").read_text())
    assert section is not None
    first, second = BLOCK.findall(section[1])
    assert "pip install -e ." in first
    first = first.replace("posttrain ", f"{sys.executable} -m posttrain ").replace("pip install -e .", "true")
    second = second.replace("posttrain ", f"{sys.executable} -m posttrain ")

    said = _run(first, tmp_path)
    package = tmp_path / "my_rewards"
    assert "ready" in said
    # "Paris." and both lines about Rome mention their reference, "Lyon." does not: three of four.
    assert "reward          0.7500" in said
    assert (package / "first.html").read_text().startswith("<!doctype html>")

    code = package / "src" / "my_rewards" / "__init__.py"
    changed = code.read_text().replace('revision="1"', 'revision="2"')
    changed = changed.replace(
        "reference.casefold() in candidate.completion.casefold()", "candidate.completion == 'Rome.'"
    )
    code.write_text(changed)
    said = _run(second, package)
    # Only "Rome." is paid now: one of four.
    assert "reward          0.2500" in said
    assert re.search(r"providers\.mentions\.revision +1 +2", said)
    assert re.search(r"final +0\.75 +0\.25 +-0\.5", said)
