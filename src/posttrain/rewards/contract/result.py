# SPDX-License-Identifier: Apache-2.0
"""What a provider returns. Checked once per group at the boundary, which can name the trajectory, not when made."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from posttrain.rewards.metrics.contribution import MetricContribution

__all__ = ["RewardCandidateResult", "RewardGroupResult", "RewardProviderResult"]


class RewardProviderResult(msgspec.Struct, frozen=True):
    """The scores of one candidate."""

    terms: Mapping[str, float]
    """Every declared term and no other; each a finite real number (bool is refused)."""
    diagnostics: Mapping[str, MetricContribution] = {}
    """Reporting only, declared names; each may be absent."""


class RewardCandidateResult(msgspec.Struct, frozen=True):
    """One candidate's scores, correlated by identity."""

    trajectory_id: str
    """The candidate's own id, repeated."""
    result: RewardProviderResult
    """Its scores."""


class RewardGroupResult(msgspec.Struct, frozen=True):
    """One result per candidate, in the order of the request."""

    group_id: str
    """The request's own group id, repeated."""
    items: tuple[RewardCandidateResult, ...]
    """[group_size], in the order of `request.candidates`: never fewer, re-sorted or broadcast."""
