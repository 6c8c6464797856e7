# SPDX-License-Identifier: Apache-2.0
"""What a provider is given: one complete group, immutable."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: F401  # FrozenJson names it, when the hints below are resolved
from typing import TYPE_CHECKING, Generic

import msgspec

from posttrain.frozen import FrozenJson
from posttrain.schema import is_length_verdict

if TYPE_CHECKING:
    from typing_extensions import TypeVar
else:
    from typing import TypeVar as _TypeVar

    def TypeVar(name, *, default, covariant):  # noqa: ARG001, N802  # PEP 696, without its import
        return _TypeVar(name, covariant=covariant)


__all__ = ["RewardCandidate", "RewardContext", "RewardGroupRequest"]


class RewardCandidate(msgspec.Struct, frozen=True, gc=False):
    """One text completion of the group's prompt."""

    trajectory_id: str
    """Identity of the candidate; its result repeats it."""
    completion: str
    """Completion text; may be empty."""
    completion_token_count: int | None = None
    """Number of tokens that the rollout counted; None: it counted none."""
    finish_reason: str | None = None
    """The engine's verbatim verdict on how the completion ended; None: the rollout recorded none."""

    @property
    def is_length_truncated(self) -> bool:
        """Whether the verdict is exactly ``"length"``: the engine cut the completion at its token budget.

        None reads as "not known to be truncated", never as "stopped".
        """
        return is_length_verdict(self.finish_reason)


class RewardContext(msgspec.Struct, frozen=True):
    """The group's common inputs: only what the provider's `needs` declare, the rest is None. Deeply frozen."""

    prompt: FrozenJson = None
    """Canonical prompt: text, or a frozen conversation."""
    reference: FrozenJson = None
    """Opaque structured reference; only the provider knows its shape."""


CandidateT = TypeVar("CandidateT", default=RewardCandidate, covariant=True)


class RewardGroupRequest(msgspec.Struct, Generic[CandidateT], frozen=True):
    """Every ordered candidate of exactly one complete group."""

    group_id: str
    """Identity of the group; equals `obs.id` of each of its trajectories."""
    candidates: tuple[CandidateT, ...]
    """[group_size], in rollout order, never empty."""
    context: RewardContext
    """What all candidates share."""
