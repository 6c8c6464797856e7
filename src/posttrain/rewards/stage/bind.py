# SPDX-License-Identifier: Apache-2.0
"""Turn trajectories into bound groups: what the contract asks of a batch is checked before any custom code runs.

The common case is decided by passes over whole columns at C speed; only a batch that fails one of them is walked
slowly (`posttrain.rewards.stage.refuse`), to name every offender at once.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from operator import attrgetter, is_
from typing import Any, final

import msgspec

from posttrain.errors import RewardContractError
from posttrain.frozen import freeze, strict_equal
from posttrain.rewards.contract.request import LatentCandidate, RewardCandidate, RewardContext, RewardGroupRequest
from posttrain.rewards.contract.spec import CANONICAL_INPUTS
from posttrain.rewards.stage.prepare import Selection
from posttrain.rewards.stage.refuse import refuse_batch
from posttrain.schema import Observation, Trajectory

__all__ = ["BoundGroup", "all_are", "bind", "same_value"]

_STRETCH = 256
_TEXT = {str}
_OPTIONAL_TEXT = {str, type(None)}
_OPTIONAL_COUNT = {int, type(None)}

# Version 2 of the format has no back-references, so equal bytes mean equal types and equal structure.
_MARSHAL_VERSION = 2


@final
class BoundGroup(msgspec.Struct, frozen=True):
    """One complete group, checked: one immutable request for each selected provider."""

    group_id: str
    requests: tuple[RewardGroupRequest[Any], ...]
    """[selected providers]; the candidates are shared, each context is the provider's own copy.

    They are `RewardCandidate`s, or `LatentCandidate`s where the providers are rank-local."""
    trajectory_ids: tuple[str, ...]
    """[group_size], in rollout order."""


def bind(trajectories: list[Trajectory], selection: Selection, group_size: int) -> list[BoundGroup]:
    """Form the groups by `group_id` alone, check everything, and freeze what each provider declared.

    Nothing of the trajectories is changed. Rows of different groups may interleave; groups come out in the order of
    their first trajectory, candidates in rollout order. Rank-local providers are given latents, others completions.

    Raises:
        RewardContractError: naming every offender: a group that is not exactly `group_size` long, a missing or repeated
            identity, a missing completion (or latent), `obs.id` that is not `group_id`, a declared input that is
            missing, null, not JSON, or not the same in the whole group.
    """
    specs = selection.specs
    needs = [need for need in CANONICAL_INPUTS if any(need in spec.needs for spec in specs)]
    ordered = _in_groups(trajectories, group_size)
    latents = selection.rank_local
    candidates = None if ordered is None else _candidates(ordered, latents=latents)
    if ordered is None or candidates is None:
        raise refuse_batch(trajectories, group_size, needs, latents=latents)
    inputs: dict[str, list[Any]] = {}
    for need in needs:
        common = _common(ordered, group_size, need)
        if common is None:
            raise refuse_batch(trajectories, group_size, needs, latents=latents)
        inputs[need] = common
    groups = []
    faults: list[RewardContractError] = []
    for number, start in enumerate(range(0, len(ordered), group_size)):
        group_id = ordered[start].group_id
        members: tuple[Any, ...] = tuple(candidates[start : start + group_size])
        try:
            contexts = [_context(spec.needs, inputs, number) for spec in specs]
        except RewardContractError as error:
            error.group_id = group_id
            faults += _unfreezable(group_id, inputs, number) or [error]
            continue
        requests = tuple([RewardGroupRequest(group_id, members, context) for context in contexts])
        groups.append(BoundGroup(group_id, requests, tuple([each.trajectory_id for each in members])))
    if faults:
        raise _together(faults)
    return groups


def _in_groups(trajectories: list[Trajectory], group_size: int) -> list[Trajectory] | None:
    """The trajectories with those of one group side by side; None when groups or identities are not as they must be."""
    if not trajectories or not all_are(Trajectory, trajectories):
        return None
    group_ids = [each.group_id for each in trajectories]
    ids = [each.trajectory_id for each in trajectories]
    if set(map(type, group_ids)) != _TEXT or set(map(type, ids)) != _TEXT or not all(ids) or not all(group_ids):
        return None
    if len(set(ids)) != len(ids):
        return None
    heads = group_ids[::group_size]
    if len(set(heads)) == len(heads) and all(group_ids[at::group_size] == heads for at in range(1, group_size)):
        return trajectories
    groups: dict[str, list[Trajectory]] = {}
    for group_id, each in zip(group_ids, trajectories, strict=True):
        groups.setdefault(group_id, []).append(each)
    if set(map(len, groups.values())) != {group_size}:
        return None
    return list(chain.from_iterable(groups.values()))


def _candidates(
    ordered: list[Trajectory], *, latents: bool
) -> Sequence[RewardCandidate] | Sequence[LatentCandidate] | None:
    """One candidate per trajectory; None when a completion (or latent) is missing or a record is malformed."""
    if latents:
        return _latent_candidates(ordered)
    candidates: list[RewardCandidate] = []
    # A stretch at a time: long completions lie far apart in memory, and each pass over all of them misses the cache.
    for start in range(0, len(ordered), _STRETCH):
        stretch = _stretch_of_candidates(ordered[start : start + _STRETCH])
        if stretch is None:
            return None
        candidates += stretch
    return candidates


def _latent_candidates(ordered: list[Trajectory]) -> list[LatentCandidate] | None:
    # A latent is looked at with `is` alone: a tensor's `==` makes another tensor.
    if any(each.latent is None for each in ordered) or _recorded(ordered) is None:
        return None
    return [LatentCandidate(each.trajectory_id, each.latent) for each in ordered]


def _stretch_of_candidates(ordered: list[Trajectory]) -> Iterable[RewardCandidate] | None:
    completions: list[Any] = [each.completion for each in ordered]
    if set(map(type, completions)) != _TEXT or (recorded := _recorded(ordered)) is None:
        return None
    return map(RewardCandidate, [each.trajectory_id for each in ordered], completions, *recorded)


def _recorded(ordered: list[Trajectory]) -> tuple[list[int | None], list[str | None]] | None:
    """Token counts and verdicts that the rollout recorded; None when a record is malformed."""
    observations = [each.obs for each in ordered]
    infos = [each.policy_info for each in ordered]
    if not (
        all_are(Observation, observations)
        and all_are(dict, infos)
        and all_are(dict, [each.reward for each in ordered])
        and set(map(type, ids := [obs.id for obs in observations])) == _TEXT
        and ids == [each.group_id for each in ordered]
    ):
        return None
    counts = [info.get("completion_token_count") for info in infos]
    reasons = [info.get("finish_reason") for info in infos]
    kinds = set(map(type, counts))
    if not (kinds <= _OPTIONAL_COUNT and set(map(type, reasons)) <= _OPTIONAL_TEXT):
        return None
    if int in kinds and min(count for count in counts if count is not None) < 0:
        return None
    return counts, reasons


def all_are(kind: type, values: list[Any]) -> bool:
    """Whether every value is of that kind; fast where it is so exactly."""
    return set(map(type, values)) == {kind} or all(isinstance(value, kind) for value in values)


def _common(ordered: list[Trajectory], group_size: int, need: str) -> list[Any] | None:
    """One declared input per group, not frozen yet; None when it is missing or differs inside a group."""
    input_of = attrgetter(need)
    values: list[Any] = [input_of(each.obs) for each in ordered]
    firsts = values[::group_size]
    if any(first is None for first in firsts):
        return None
    if set(map(type, values)) == _TEXT:
        # Texts are compared at C speed, one column of candidates after the other.
        same = all(values[at::group_size] == firsts for at in range(1, group_size))
    else:
        groups = range(0, len(values), group_size)
        same = all(same_value(values[start], values[start : start + group_size]) for start in groups)
    return firsts if same else None


def same_value(first: Any, others: list[Any]) -> bool:
    """Whether every one of `others` is strictly equal to `first`."""
    # Of values other than texts only the very same object needs no comparison.
    if all(map(is_, others, repeat(first))):
        return True
    try:
        encoded = marshal.dumps(first, _MARSHAL_VERSION)
    except ValueError:
        return all(map(strict_equal, repeat(first), others))
    return all(each is first or _same_bytes(encoded, each) or strict_equal(first, each) for each in others)


def _same_bytes(encoded: bytes, value: Any) -> bool:
    try:
        return marshal.dumps(value, _MARSHAL_VERSION) == encoded
    except ValueError:
        return False


def _context(needs: tuple[str, ...], inputs: dict[str, list[Any]], number: int) -> RewardContext:
    return RewardContext(
        prompt=freeze(inputs["prompt"][number], "prompt") if "prompt" in needs else None,
        reference=freeze(inputs["reference"][number], "reference") if "reference" in needs else None,
    )


def _unfreezable(group_id: str, inputs: dict[str, list[Any]], number: int) -> list[RewardContractError]:
    """One error for each of a group's inputs that can't be frozen: the first context that failed knows only one."""
    faults = []
    for need, values in inputs.items():
        try:
            freeze(values[number], need)
        except RewardContractError as error:
            error.group_id = group_id
            faults.append(error)
    return faults


def _together(faults: list[RewardContractError]) -> RewardContractError:
    if len(faults) == 1:
        return faults[0]
    lines = "\n".join(f"group {fault.group_id!r}: {fault.message}" for fault in faults[:20])
    groups = {fault.group_id for fault in faults}
    return RewardContractError(
        f"{len(faults)} inputs can't be frozen:\n{lines}", group_id=groups.pop() if len(groups) == 1 else None
    )
