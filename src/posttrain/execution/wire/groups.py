# SPDX-License-Identifier: Apache-2.0
"""Bound groups as bytes: candidates by column, each provider's own inputs as JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final, final

import msgspec

from posttrain.errors import RewardContractError
from posttrain.execution.wire.packing import Packing, WireError
from posttrain.frozen import freeze
from posttrain.rewards.contract.request import RewardCandidate, RewardContext, RewardGroupRequest
from posttrain.rewards.stage.bind import BoundGroup

__all__ = ["decode_groups", "encode_groups"]

_completions = attrgetter("completion")
_counts = attrgetter("completion_token_count")
_reasons = attrgetter("finish_reason")


@final
class _Group(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    group_id: str
    trajectory_ids: tuple[str, ...]
    completions: list[str]
    counts: list[int | None]
    reasons: list[str | None]
    contexts: list[tuple[Any, Any]]
    """[selected providers]: prompt and reference, None where the provider declares none."""


_PACKING: Final = Packing[list[_Group]](list[_Group], "a list of groups")


def encode_groups(groups: Sequence[BoundGroup]) -> bytearray:
    """Bound groups as bytes; the requests of a group share their candidates, as `bind` makes them.

    Raises:
        WireError: a candidate is no text completion, or the requests of a group have candidates of their own.
    """
    return _PACKING.pack(list(map(_packed, groups)))


def decode_groups(data: bytes | bytearray | memoryview) -> list[BoundGroup]:
    """The groups again: equal to those that were encoded, each provider's inputs frozen and its own.

    Raises:
        WireError: the bytes hold no groups.
    """
    try:
        return list(map(_unpacked, _PACKING.unpack(data)))
    except (RewardContractError, ValueError) as error:
        raise error if isinstance(error, WireError) else WireError(f"a list of groups can't be read: {error}") from None


def _packed(group: BoundGroup) -> _Group:
    candidates = group.requests[0].candidates
    if any(request.candidates is not candidates for request in group.requests):
        raise WireError(f"group {group.group_id!r}: its requests don't share their candidates")
    if set(map(type, candidates)) != {RewardCandidate}:
        raise WireError(f"group {group.group_id!r}: only text completions can be sent to another process")
    return _Group(
        group.group_id,
        group.trajectory_ids,
        list(map(_completions, candidates)),
        list(map(_counts, candidates)),
        list(map(_reasons, candidates)),
        [(request.context.prompt, request.context.reference) for request in group.requests],
    )


def _unpacked(group: _Group) -> BoundGroup:
    ids = group.trajectory_ids
    if not len(ids) == len(group.completions) == len(group.counts) == len(group.reasons):
        raise WireError(f"group {group.group_id!r}: its columns are not of one length")
    candidates = tuple(map(RewardCandidate, ids, group.completions, group.counts, group.reasons))
    requests = tuple(
        [
            RewardGroupRequest(
                group.group_id, candidates, RewardContext(freeze(prompt, "prompt"), freeze(reference, "reference"))
            )
            for prompt, reference in group.contexts
        ]
    )
    return BoundGroup(group.group_id, requests, ids)
