# SPDX-License-Identifier: Apache-2.0
"""Batches for the catalog of `actor_rewards`, and what it leaves behind."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from posttrain.schema import Observation, Trajectory


def batch(scripts: Sequence[Any], size: int = 2) -> list[Trajectory]:
    """A group for each script, named g0, g1 and so on; the script is its reference."""
    return [
        Trajectory(
            trajectory_id=f"g{number}/{place}",
            group_id=f"g{number}",
            obs=Observation(id=f"g{number}", prompt="p", reference=script),
            completion=f"text {place} of group {number}",
        )
        for number, script in enumerate(scripts)
        for place in range(size)
    ]


def written(trajectories: Sequence[Trajectory]) -> list[tuple[Any, ...]]:
    """What the stage wrote, with every bit of its numbers in sight."""
    return [
        (
            each.trajectory_id,
            {name: value.hex() for name, value in each.reward.items()},
            None if each.advantage is None else each.advantage.hex(),
        )
        for each in trajectories
    ]


def calls(folder: Path, group_id: str) -> list[int]:
    """Process ids of the actors that evaluated the group, in order."""
    notes = sorted(folder.glob(f"{group_id}.*"), key=lambda each: int(each.name.split(".")[1]))
    return [int(each.name.split(".")[2]) for each in notes]


def until(holds: Callable[[], Any], seconds: float = 30.0) -> Any:
    """Wait until something holds, and give it; fail after so many seconds."""
    end = time.monotonic() + seconds
    while not (value := holds()):
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.02)
    return value


def is_alive(pid: int) -> bool:
    """Whether a process of that id runs, a zombie apart."""
    with contextlib.suppress(OSError):
        os.kill(pid, 0)
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return False
