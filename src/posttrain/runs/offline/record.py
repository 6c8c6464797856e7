# SPDX-License-Identifier: Apache-2.0
"""What is written about a scored file: its rows, and once beside it what made them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from stat import S_ISREG
from typing import Any, Final

import msgspec

from posttrain import __version__
from posttrain.errors import RewardConfigError
from posttrain.rewards.stage.outcome import GroupOutcome
from posttrain.rewards.stage.stage import RewardStage
from posttrain.rollouts.source import RolloutSource

__all__ = ["FORMAT", "ScoredRow", "encode_rows", "json_bytes", "provenance", "sha256_of", "size_of"]

FORMAT: Final = 1
"""Version of what is written; a reader refuses one that it does not know."""


class ScoredRow(msgspec.Struct, omit_defaults=True):
    """One candidate of a scored file."""

    trajectory_id: str
    group_id: str
    reward: dict[str, float]
    """Every term, raw, and ``final``; empty when the group was dropped."""
    advantage: float | None
    """None: the group was dropped."""
    dropped_because: str | None = None
    """Why; absent in a scored row."""


_encode = msgspec.json.Encoder().encode_into


def encode_rows(outcomes: Iterable[GroupOutcome]) -> bytearray:
    """One JSON line per candidate, in rollout order."""
    lines = bytearray()
    for outcome in outcomes:
        dropped = outcome.dropped_because is not None
        rewards = [{} for _ in outcome.trajectory_ids] if dropped else outcome.rewards()
        # Where the whole file is one batch, advantages are not known yet, and a later pass fills them in.
        advantages = outcome.advantages or (None,) * len(outcome.trajectory_ids)
        for trajectory_id, reward, advantage in zip(outcome.trajectory_ids, rewards, advantages, strict=True):
            row = ScoredRow(trajectory_id, outcome.group_id, reward, advantage, outcome.dropped_because)
            _encode(row, lines, len(lines))
            lines += b"\n"
    return lines


def provenance(stage: RewardStage, source: RolloutSource) -> dict[str, Any]:
    """Everything that decides what a scored file and its metrics hold: a resume under anything else is refused.

    Raises:
        RewardConfigError: the rollouts can't be read, or are no regular file.
    """
    identity = stage.identity
    return {
        "format": FORMAT,
        "posttrain": __version__,
        "stage_sha256": identity.sha256,
        "stage": identity.to_json(),
        "namespace": stage.namespace,
        "rollouts": {"name": source.path.name, "bytes": size_of(source.path), "sha256": sha256_of(source.path)},
        "columns": asdict(source.columns),
        "grouping": source.grouping.describe(),
        **({} if source.dump is None else {"dump": dict(source.dump.describe())}),
    }


def json_bytes(value: Any) -> bytes:
    """Indented JSON text with a final newline, for files that people open."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def size_of(rollouts: Path) -> int:
    """Size of a rollout file in bytes.

    Raises:
        RewardConfigError: there is none, or it is no regular file: ids that might stand twice, and the fingerprint of
            what is scored, take a second look at it.
    """
    try:
        status = rollouts.stat()
    except OSError as error:
        raise RewardConfigError(f"{rollouts} can't be read: {error.strerror or error}") from error
    if not S_ISREG(status.st_mode):
        raise RewardConfigError(f"{rollouts} is no regular file: a folder or a pipe can't be scored; name a file")
    return status.st_size


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal.

    Raises:
        RewardConfigError: it can't be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise RewardConfigError(f"{path} can't be read: {error.strerror or error}") from error
