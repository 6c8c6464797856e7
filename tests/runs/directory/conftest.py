# SPDX-License-Identifier: Apache-2.0
"""Scored batches and runs for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from posttrain.rewards import RewardOutcome, RewardReport, RewardUnavailableError, RewardWorker
from posttrain.runs.directory import Provenance, RunDirectory
from posttrain.schema import Observation, Trajectory
from posttrain.testing import ScriptedProvider


@dataclass(frozen=True, slots=True)
class Scored:
    """A batch with what the stage made of it; committed."""

    worker: RewardWorker
    trajectories: list[Trajectory]
    outcome: RewardOutcome

    @property
    def report(self) -> RewardReport:
        """Of the outcome."""
        return self.outcome.report


@pytest.fixture
def scored() -> Callable[..., Scored]:
    """`scored({"g1": [1.0, 0.0], "g2": None})` scores a group of two and drops one whose service timed out.

    Further arguments go to the worker; `revision` is that of the one provider.
    """

    def make(
        groups: Mapping[str, Sequence[float] | None], *, revision: str = "1", size: int = 2, **settings: Any
    ) -> Scored:
        scripts = {
            name: RewardUnavailableError("the judge timed out") if values is None else values
            for name, values in groups.items()
        }
        worker = RewardWorker(
            catalog={"scripted": ScriptedProvider(scripts).spec(revision=revision)},
            reward="scripted",
            group_size=size,
            **{"on_unavailable": "drop_group", "max_dropped_fraction": 0.9, **settings},
        )
        trajectories = [
            Trajectory(
                trajectory_id=f"{name}/{at}",
                group_id=name,
                obs=Observation(id=name, prompt=f"prompt of {name}", reference={"of": [name]}, row_id=f"row {name}"),
                completion=f"completion {at}",
                policy_info={"finish_reason": "stop", "completion_token_count": 10 + at},
            )
            for name in groups
            for at in range(size)
        ]
        outcome = worker.compute(trajectories)
        worker.commit(trajectories, outcome)
        return Scored(worker, trajectories, outcome)

    return make


@pytest.fixture
def batch(scored: Callable[..., Scored]) -> Scored:
    """Two groups: ``g1`` is worth 1.0 and 0.0, ``g2`` was dropped."""
    return scored({"g1": [1.0, 0.0], "g2": None})


@pytest.fixture
def begin(tmp_path: Path, batch: Scored) -> Callable[..., RunDirectory]:
    """Begins the run ``first`` of the worker of `batch`; arguments go to `RunDirectory.create`."""

    def make(name: str = "first", **more: Any) -> RunDirectory:
        given = {"config_text": "rl.group_size = 2\n", "provenance": Provenance.of(batch.worker.stage), **more}
        return RunDirectory.create(tmp_path / "runs", name, **given)

    return make


@pytest.fixture
def tree() -> Callable[[Path], dict[str, bytes | None]]:
    """Everything below a folder: files with their content, folders with None."""

    def of(folder: Path) -> dict[str, bytes | None]:
        return {
            each.relative_to(folder).as_posix(): each.read_bytes() if each.is_file() else None
            for each in sorted(folder.rglob("*"))
        }

    return of
