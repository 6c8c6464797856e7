# SPDX-License-Identifier: Apache-2.0
"""Batches, evaluators that are closed again, and a look at what processes are left."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from posttrain.execution import ProcessEvaluator
from posttrain.rewards import RewardWorker
from posttrain.schema import Observation, Trajectory

CATALOG = "execution.processes.rewards:catalog"


@pytest.fixture(scope="session")
def batch_of() -> Callable[[Mapping[str, Sequence[Any]]], list[Trajectory]]:
    """`batch_of({"g": [0.5, "exit"]})` has ``g/0`` and ``g/1``; the completions are JSON of the orders."""

    def make(groups: Mapping[str, Sequence[Any]]) -> list[Trajectory]:
        return [
            Trajectory(
                trajectory_id=f"{name}/{index}",
                group_id=name,
                obs=Observation(id=name, prompt=f"prompt of {name}", reference=None),
                completion=json.dumps(order),
            )
            for name, orders in groups.items()
            for index, order in enumerate(orders)
        ]

    return make


def children() -> set[int]:
    """Processes of this one that exist, zombies among them."""
    return {
        int(pid)
        for task in Path(f"/proc/{os.getpid()}/task").iterdir()
        for pid in (task / "children").read_text().split()
    }


@pytest.fixture
def no_child_left() -> Iterator[None]:
    """After the test this process has the children that it had before: none is left, not even as a zombie."""
    before = children()
    yield
    assert children() <= before


@pytest.fixture
def worker_of(no_child_left: None) -> Iterator[Callable[..., RewardWorker]]:
    """A `RewardWorker` on two worker processes; `pool` holds the evaluator's settings. Closed after the test."""
    made: list[RewardWorker] = []

    def make(reward: str | Sequence[str] = "obey", *, pool: Mapping[str, Any] | None = None, **fields: Any) -> Any:
        evaluator = ProcessEvaluator(**{"workers": 2, "group_timeout_s": 60, **(pool or {})})
        settings = {"catalog": CATALOG, "group_size": 2, **fields}
        made.append(worker := RewardWorker(reward=reward, evaluator=evaluator, **settings))
        return worker

    yield make
    for worker in made:
        worker.close()


@pytest.fixture
def marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], int]:
    """Wait until a deed has begun, ``marks("sleep-g-0")``; gives the process id of who does it."""
    monkeypatch.setenv("MARKS", str(tmp_path))

    def wait(mark: str) -> int:
        deadline = time.monotonic() + 30
        while not (tmp_path / mark).exists():
            assert time.monotonic() < deadline, f"{mark} did not begin"
            time.sleep(0.01)
        return int((tmp_path / mark).read_text())

    return wait


@pytest.fixture(scope="session")
def is_gone() -> Callable[[int], bool]:
    """Whether a process ends within some seconds; one that is dead and not reaped by its parent counts as gone."""

    def wait(pid: int) -> bool:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            except (FileNotFoundError, ProcessLookupError):
                return True
            if state == "Z":
                return True
            time.sleep(0.02)
        return False

    return wait
