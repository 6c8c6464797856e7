# SPDX-License-Identifier: Apache-2.0
"""The Python of the documentation runs, and does what the text around it says."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Blocks = Callable[[str, str], list[str]]

# What the text of a page lets the reader have before its first block; and what it says of the result, as assertions.
BEFORE = {
    "README.md": """
from posttrain.schema import Observation, Trajectory

trajectories = [
    Trajectory(
        trajectory_id=f"t{at}", group_id="g", obs=Observation(id="g", prompt="?", reference="Paris"),
        completion="It is Paris." if at < 2 else "It is Rome.",
    )
    for at in range(8)
]
""",
    "docs/migrating.md": """
from functools import partial
from posttrain.rewards import (
    RewardCandidate, RewardCandidateResult, RewardContext, RewardContractError, RewardGroupRequest, RewardGroupResult,
    RewardProviderResult, RewardProviderSpec, map_candidates,
)
""",
}
AFTER = {
    "README.md": """
assert [each.reward["task"] for each in trajectories] == [1.0] * 2 + [0.0] * 6
assert report.metrics()["train/reward/final/mean"] == 0.25
assert all(each.reward["final"] == each.reward["task"] and each.advantage is not None for each in trajectories)
""",
    "docs/migrating.md": """
from posttrain.rewards import RewardWorker
from posttrain.schema import Observation, Trajectory
from posttrain.testing import try_scorer

batch = [
    Trajectory(
        trajectory_id=text, group_id="g", obs=Observation(id="g", prompt="?", reference="Paris"), completion=text
    )
    for text in ("Rome", "paris", "It is Paris")
]
old = [Mentions().evaluate(each) for each in batch]
assert old == try_scorer(score_candidate, [each.completion for each in batch], reference="Paris")
assert old == [{"task": 0.0}, {"task": 1.0}, {"task": 1.0}]
spec = RewardProviderSpec(factory=Shortest, revision="2", terms=("brevity",))
RewardWorker(catalog={"shortest": spec}, reward="shortest", group_size=3).score(batch)
assert [each.reward["brevity"] for each in batch] == [1.0, 0.0, 0.0]
try:
    RewardWorker(
        catalog={"old": RewardProviderSpec(factory=Mentions, revision="1", terms=("task",))},
        reward="old", group_size=3,
    )
except Exception as error:
    assert "docs/migrating.md" in str(error)
else:
    raise AssertionError("the older contract was taken")
""",
}

_FILE = re.compile(r"# (\w+\.py)\n")
_SHOWN = re.compile(r"^(\S.*?)  # (.*)$")

# Runs the blocks of a page one after the other in one module. A block whose first line names a file is that file's
# content, and is imported from it; a last line with a comment behind it is an expression and what it gives.
_RUN = """
import json, sys
blocks, shown = json.load(open("blocks.json"))
sys.path.insert(0, "")
space = {"__name__": "page"}
for number, block in enumerate(blocks):
    exec(compile(block, f"block {number}", "exec"), space)
    if (pair := shown.get(str(number))) is not None:
        expression, wanted = pair
        assert repr(eval(expression, space)) == wanted, (eval(expression, space), wanted)
"""


def run_blocks(folder: Path, blocks: list[str]) -> None:
    """Run them in a fresh process, with warnings as errors."""
    programs, shown = [], {}
    for number, block in enumerate(blocks):
        if (named := _FILE.match(block)) is not None:
            (folder / named[1]).write_text(block, encoding="utf-8")
            programs.append(f"from {named[1].removesuffix('.py')} import *")
            continue
        programs.append(block)
        if (pair := _SHOWN.match(block.rstrip().splitlines()[-1])) is not None:
            shown[str(number)] = pair.groups()
    (folder / "blocks.json").write_text(json.dumps([programs, shown]), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _RUN], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", sorted(BEFORE))
def test_every_python_block_runs(page: str, blocks: Blocks, tmp_path: Path) -> None:
    """The blocks of a page, from the first to the last, and then what the page says of them."""
    run_blocks(tmp_path, [BEFORE[page], *blocks(page, "python"), AFTER[page]])


def test_every_other_python_block_can_be_read(pages: dict[str, str], blocks: Blocks, tmp_path: Path) -> None:
    """Of a page whose blocks stand for a user's whole program, each block compiles, and what it imports is there."""
    for page in pages.keys() - BEFORE.keys():
        for number, block in enumerate(blocks(page, "python")):
            tree = ast.parse(block, f"{page}, block {number}")
            imports = [
                each
                for each in tree.body
                if isinstance(each, ast.ImportFrom) and (each.module or "")[:9] == "posttrain"
            ]
            run_blocks(tmp_path, [ast.unparse(each) for each in imports])


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        (["1 / 0"], "ZeroDivisionError"),
        (["x = 1", "x + y"], "NameError"),
        (["[1, 2]  # [1, 3]"], r"AssertionError: \(\[1, 2\], '\[1, 3\]'\)"),
        (["# mine.py\nx = 1\n", "assert x == 2"], "AssertionError"),
        (["import warnings\nwarnings.warn('old')"], "UserWarning: old"),
    ],
)
def test_a_broken_block_is_found(tmp_path: Path, blocks: list[str], message: str) -> None:
    """The check can fail, for each of its reasons."""
    with pytest.raises(AssertionError, match=message):
        run_blocks(tmp_path, blocks)


def test_whole_blocks_run(tmp_path: Path) -> None:
    """Blocks share their names, a file is imported, and a shown result that is right passes."""
    run_blocks(tmp_path, ["# mine.py\nx = [1]\n", "y = x", "y + [2]  # [1, 2]"])
