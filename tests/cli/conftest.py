# SPDX-License-Identifier: Apache-2.0
"""A small file of rollouts whose every number is known by hand, and a catalog whose service can be down."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Written = Callable[..., Path]


@pytest.fixture
def four(written: Written) -> Path:
    """Two groups of two. `gsm8k` gives 1, 0 and 1, 1; one candidate was cut, of two the verdict is not known."""
    return written(
        "four.jsonl",
        [
            {"group_id": "a", "trajectory_id": "a0", "completion": "#### 4", "reference": "4", "finish_reason": "stop"},
            {
                "group_id": "a",
                "trajectory_id": "a1",
                "completion": "#### 5",
                "reference": "4",
                "finish_reason": "length",
            },
            {"group_id": "b", "trajectory_id": "b0", "completion": "#### 7", "reference": "7", "finish_reason": None},
            {"group_id": "b", "trajectory_id": "b1", "completion": "#### 7", "reference": "7"},
        ],
    )


@pytest.fixture
def flaky(written: Written) -> str:
    """A catalog file: `flaky` gives the length of a completion, is unavailable for "down" and breaks at "bad"."""
    written(
        "rewards.py",
        """
from functools import partial
from posttrain.rewards import RewardProviderResult, RewardProviderSpec, RewardUnavailableError, map_candidates


def score(candidate, context):
    if candidate.completion == "down":
        raise RewardUnavailableError("503 from the service")
    if candidate.completion == "bad":
        return RewardProviderResult({"length": float("nan")})
    return RewardProviderResult({"length": float(len(candidate.completion))})


def catalog():
    return {"flaky": RewardProviderSpec(factory=partial(map_candidates, score), revision="1", terms=("length",))}
""",
    )
    return "rewards.py:catalog"


@pytest.fixture
def pairs(written: Written) -> Callable[..., Path]:
    """Write groups of two: the first candidate's completion is as given, the second's is "ok"."""

    def write(*completions: str) -> Path:
        rows = [
            {"group_id": f"g{at}", "trajectory_id": f"g{at}/{place}", "completion": text}
            for at, completion in enumerate(completions)
            for place, text in enumerate((completion, "ok"))
        ]
        return written("pairs.jsonl", rows)

    return write


@pytest.fixture
def scored() -> Callable[[Path], list[dict[str, Any]]]:
    """Read the rows of a scored file."""

    def read(path: Path) -> list[dict[str, Any]]:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    return read
