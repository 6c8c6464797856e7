# SPDX-License-Identifier: Apache-2.0
"""Files and folders of the tests that kill, interrupt and resume."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

MakeRollouts = Callable[[Path, int], Path]


@pytest.fixture
def quick_path() -> Iterator[Path]:
    """An empty folder in memory where the machine has one: syncing costs nothing there, and a kill is the same."""
    shared = Path("/dev/shm")  # noqa: S108  # the folder that is made in it is private
    usable = shared.is_dir() and os.access(shared, os.W_OK)
    with tempfile.TemporaryDirectory(dir=shared if usable else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def many_groups() -> MakeRollouts:
    """Write a file of so many small groups of 8; rewards and verdicts differ inside the groups and between them."""

    def make(path: Path, groups: int) -> Path:
        with path.open("w", encoding="utf-8") as file:
            for group in range(groups):
                for at in range(8):
                    verdict = '"length"' if group * at % 5 == 1 else '"stop"'
                    file.write(
                        f'{{"group_id":"g{group}","trajectory_id":"g{group}/{at}",'
                        f'"completion":"{"x" * (group * 7 % 11 * at % 13)}","finish_reason":{verdict}}}\n'
                    )
        return path

    return make


@pytest.fixture
def lengths(quick_path: Path) -> str:
    """A catalog file: `length` rewards each candidate by the number of its characters, in tenths."""
    (quick_path / "rewards.py").write_text(
        """
from posttrain.rewards import RewardCandidateResult, RewardGroupResult, RewardProviderResult, RewardProviderSpec


class Length:
    def evaluate(self, request):
        return RewardGroupResult(
            request.group_id,
            tuple(
                RewardCandidateResult(each.trajectory_id, RewardProviderResult({"length": len(each.completion) / 10}))
                for each in request.candidates
            ),
        )


def catalog():
    return {"length": RewardProviderSpec(factory=Length, revision="1", terms=("length",))}
"""
    )
    return "rewards.py:catalog"
