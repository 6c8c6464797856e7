# SPDX-License-Identifier: Apache-2.0
"""What a provider is given: one complete group, immutable."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: F401  # FrozenJson names it, when the hints below are resolved
from typing import TYPE_CHECKING, Any, Generic, Never, final

import msgspec

from posttrain.frozen import FrozenJson
from posttrain.schema import is_length_verdict

if TYPE_CHECKING:
    from typing_extensions import TypeVar
else:
    from typing import TypeVar as _TypeVar

    def TypeVar(name, *, default, covariant):  # noqa: ARG001, N802  # PEP 696, without its import
        return _TypeVar(name, covariant=covariant)


__all__ = ["LatentCandidate", "RewardCandidate", "RewardContext", "RewardGroupRequest"]


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


@final
class LatentCandidate:
    """The final latent of one diffusion rollout: what a rank-local provider is given in place of text.

    The latent is the rollout's own object, on its own device, and stays where it is: it is never frozen, copied,
    hashed, compared, pickled, recorded or sent away, and each of these is refused here by name. Two candidates are
    equal when they are the same object.
    """

    __slots__ = ("latent", "trajectory_id")

    trajectory_id: str
    """Identity of the candidate; its result repeats it."""
    latent: Any
    """Final latent; only the decoder knows its shape. Never None."""

    def __init__(self, trajectory_id: str, latent: Any) -> None:
        object.__setattr__(self, "trajectory_id", trajectory_id)
        object.__setattr__(self, "latent", latent)

    def __repr__(self) -> str:
        return f"LatentCandidate({self.trajectory_id!r})"

    def __setattr__(self, name: str, value: object) -> Never:
        raise AttributeError(f"immutable type: 'LatentCandidate' (can't set {name!r})")

    def __delattr__(self, name: str) -> Never:
        raise AttributeError(f"immutable type: 'LatentCandidate' (can't delete {name!r})")

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> Never:
        raise TypeError(f"{self!r} is not hashed: key by its trajectory_id")

    def __copy__(self) -> Never:
        raise TypeError(f"{self!r} is not copied: its latent stays the rollout's own")

    def __deepcopy__(self, memo: object) -> Never:
        raise TypeError(f"{self!r} is not copied: its latent stays the rollout's own")

    def __reduce_ex__(self, protocol: object) -> Never:
        raise TypeError(f"{self!r} is not pickled: a latent stays on its rank, where its decoder is")


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
