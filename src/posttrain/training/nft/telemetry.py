# SPDX-License-Identifier: Apache-2.0
"""What rank 0 publishes of every batch: the mergeable report, and every candidate's reward and advantage."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, final

import msgspec

from posttrain.errors import RewardConfigError
from posttrain.rewards import RewardOutcome, RewardReport
from posttrain.rollouts.atomic import write_atomically

__all__ = ["BatchTelemetry", "GroupTelemetry", "forget_after", "publish", "read_telemetry"]

_FOLDER: Final = "telemetry"


@final
class GroupTelemetry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One complete group."""

    group_id: str
    trajectory_ids: tuple[str, ...]
    """[group_size]; the columns below are in the same order."""
    ranks: tuple[int, ...]
    """Which rank made each candidate."""
    terms: dict[str, tuple[float, ...]]
    """Term to raw values; empty when dropped."""
    final: tuple[float, ...]
    """Combined reward; empty when dropped."""
    advantages: tuple[float, ...]
    """Empty when dropped."""
    optimality: tuple[float, ...]
    """r of the loss, in [0, 1]; empty when dropped."""
    dropped_because: str | None = None


@final
class BatchTelemetry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One batch: every group of all ranks."""

    step: int
    groups: tuple[GroupTelemetry, ...]
    report: RewardReport
    """Exact; merge it with those of other steps or runs."""


def publish(run: Path, step: int, outcome: RewardOutcome, ranks: dict[str, int], optimality: dict[str, float]) -> None:
    """Write ``telemetry/step-00000010.json``, whole; only its owner can read it.

    Args:
        run: the run's folder.
        step: number of the batch.
        outcome: of the whole batch.
        ranks: trajectory id to the rank that made it.
        optimality: trajectory id to r; those of dropped groups are missing.

    Raises:
        RewardConfigError: the file system refuses.
    """
    groups = tuple(
        GroupTelemetry(
            group_id=group.group_id,
            trajectory_ids=group.trajectory_ids,
            ranks=tuple(ranks[each] for each in group.trajectory_ids),
            terms=dict(group.terms),
            final=group.final,
            advantages=group.advantages,
            optimality=tuple(optimality[each] for each in group.trajectory_ids if each in optimality),
            dropped_because=group.dropped_because,
        )
        for group in outcome.groups
    )
    batch = BatchTelemetry(step=step, groups=groups, report=outcome.report)
    folder = run / _FOLDER
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise RewardConfigError(f"can't make {folder}: {error.strerror or error}") from error
    write_atomically(folder / f"step-{step:08d}.json", msgspec.json.encode(batch) + b"\n", mode=0o600)


def read_telemetry(run: str | Path) -> Sequence[BatchTelemetry]:
    """Every batch that a run has published, in order.

    Raises:
        RewardConfigError: a file is damaged.
    """
    found = []
    for file in sorted((Path(run) / _FOLDER).glob("step-*.json")):
        try:
            content: Any = msgspec.json.decode(file.read_bytes(), type=BatchTelemetry)
        except (OSError, msgspec.DecodeError) as error:
            raise RewardConfigError(f"{file} is no telemetry of a batch: {error}") from error
        found.append(content)
    return found


def forget_after(run: Path, step: int) -> None:
    """Remove what was published of later batches, which will be done anew."""
    for file in (run / _FOLDER).glob("step-*.json"):
        if int(file.stem.removeprefix("step-")) > step:
            file.unlink()
