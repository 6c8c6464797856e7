# SPDX-License-Identifier: Apache-2.0
"""What the stage computed for a batch, before any trajectory is touched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import msgspec

from posttrain.rewards.metrics.report import RewardReport

__all__ = ["GroupOutcome", "RewardOutcome"]


@final
class GroupOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """One group: scored and annotated, or dropped."""

    group_id: str
    trajectory_ids: tuple[str, ...]
    """[group_size], in rollout order; the columns below are in the same order."""
    terms: Mapping[str, tuple[float, ...]] = {}
    """Term to raw values, [group_size] each; empty when dropped."""
    final: tuple[float, ...] = ()
    """Combined reward, [group_size]; empty when dropped."""
    advantages: tuple[float, ...] = ()
    """Group-relative advantage, [group_size]; empty when dropped."""
    dropped_because: str | None = None
    """Why the failure policy dropped the group; None: it is scored."""

    @property
    def has_spread(self) -> bool:
        """Whether the final rewards differ: the hook for a rollout that samples again where they don't."""
        return bool(self.final) and self.final.count(self.final[0]) < len(self.final)

    def rewards(self) -> list[dict[str, float]]:
        """What each candidate is given, in order: every term and ``final``."""
        if len(self.terms) == 1:
            ((term, values),) = self.terms.items()
            return [{term: value, "final": final} for value, final in zip(values, self.final, strict=True)]
        names = (*self.terms, "final")
        return [dict(zip(names, row, strict=True)) for row in zip(*self.terms.values(), self.final, strict=True)]


@final
class RewardOutcome(msgspec.Struct, frozen=True):
    """The whole batch: one outcome per group, in the order of the groups' first trajectories, and the report."""

    groups: tuple[GroupOutcome, ...]
    report: RewardReport
    terms: tuple[str, ...]
    """Every term that the stage owns, of all selected providers."""
