# SPDX-License-Identifier: Apache-2.0
"""The records that a rollout hands to the reward stage.

Both are plain mutable records. They check and freeze nothing when made: the stage's boundary does, once per group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Observation", "Trajectory", "is_length_truncated", "is_length_verdict"]


@dataclass(slots=True, kw_only=True)
class Observation:
    """What the policy was shown. It keeps the caller's own objects."""

    id: str
    """Identity of this occurrence of a row in a batch; equals `Trajectory.group_id`."""
    prompt: Any
    """Canonical prompt: text, or a JSON-compatible conversation."""
    reference: Any = None
    """Opaque structured reference that the provider reads; JSON-compatible. None: the row has none."""
    representations: dict[str, Any] = field(default_factory=dict)
    """Unmapped columns of the source row, where the loader preserves them."""
    row_id: str | None = None
    """The data row's stable id: the same row drawn twice has one row id and two group ids."""


@dataclass(slots=True, kw_only=True)
class Trajectory:
    """One candidate completion with what the rollout recorded and what the reward stage wrote."""

    trajectory_id: str
    """Unique over the batch."""
    group_id: str
    """Shared by all candidates of one occurrence of a prompt; minted for each occurrence."""
    obs: Observation
    completion: str | None = None
    """Completion text. None: missing. The empty string is a completion."""
    latent: Any = None
    """Final latent of a diffusion rollout, in place of text."""
    policy_info: dict[str, Any] = field(default_factory=dict)
    """Authored by the rollout: `finish_reason`, `completion_token_count`, token ids, log-probs, `policy_version`."""
    reward: dict[str, float] = field(default_factory=dict)
    """The stage writes its terms and `final`; every other key (step rewards) is left alone."""
    advantage: float | None = None
    """Group-relative advantage. None: not annotated, or the group was dropped."""


def is_length_verdict(finish_reason: object) -> bool:
    """Whether an engine's verdict says that the completion was cut at its token budget.

    Only the exact string ``"length"`` does. None reads as "not known to be truncated", never as "stopped".
    """
    return isinstance(finish_reason, str) and finish_reason == "length"


def is_length_truncated(policy_info: Mapping[str, Any]) -> bool:
    """The same comparison on what a rollout recorded; the trainer's truncation mask uses this one."""
    return is_length_verdict(policy_info.get("finish_reason"))
