# SPDX-License-Identifier: Apache-2.0
"""Name everything that is wrong with a batch, once the binder's fast passes have found that something is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from posttrain.errors import RewardContractError, describe, listing
from posttrain.frozen import first_difference
from posttrain.schema import Observation, Trajectory

__all__ = ["refuse_batch"]


class _Fault(NamedTuple):
    group: str | None
    trajectory: str | None
    text: str

    def __str__(self) -> str:
        names = [
            f"{kind} {name!r}"
            for kind, name in (("group", self.group), ("trajectory", self.trajectory))
            if name is not None
        ]
        return ": ".join([", ".join(names), self.text] if names else [self.text])


def refuse_batch(
    trajectories: Sequence[Any], group_size: int, needs: Sequence[str], *, latents: bool = False
) -> RewardContractError:
    """One error that lists every fault of the batch; its names are set where all faults are about one thing.

    Args:
        trajectories: the batch.
        group_size: candidates per group.
        needs: the inputs that some selected provider declared.
        latents: whether the providers score latents in place of completions.
    """
    faults = list(_faults(trajectories, group_size, needs, latents=latents))
    if not faults:
        faults = [_Fault(None, None, "the batch changed while it was checked: another thread writes to it")]
    groups = {fault.group for fault in faults}
    candidates = {fault.trajectory for fault in faults}
    return RewardContractError(
        f"the batch does not fit the contract:\n{listing([str(fault) for fault in faults])}",
        group_id=groups.pop() if len(groups) == 1 else None,
        trajectory_id=candidates.pop() if len(candidates) == 1 else None,
    )


def _faults(trajectories: Sequence[Any], group_size: int, needs: Sequence[str], *, latents: bool) -> Iterator[_Fault]:
    if not trajectories:
        yield _Fault(None, None, "expected at least one group, got no trajectories")
        return
    sound = []
    sizes: Counter[str] = Counter()
    for index, each in enumerate(trajectories):
        if not isinstance(each, Trajectory):
            yield _Fault(None, None, f"[{index}]: expected a Trajectory, got {describe(each)}")
            continue
        if type(each.group_id) is str and each.group_id:
            # A candidate without an id of its own is still one of its group.
            sizes[each.group_id] += 1
        if faults := list(_identity_faults(index, each)):
            yield from faults
        else:
            sound.append(each)
    counts = Counter(each.trajectory_id for each in sound)
    for trajectory_id, times in counts.items():
        if times > 1:
            yield _Fault(None, trajectory_id, f"stands {times} times in the batch; a trajectory id is unique over it")
    groups: dict[str, list[Trajectory]] = {group_id: [] for group_id in sizes}
    for each in sound:
        groups[each.group_id].append(each)
    for group_id, members in groups.items():
        if sizes[group_id] != group_size:
            ids = ", ".join(repr(each.trajectory_id) for each in members[:8])
            more = ", ..." if len(members) > 8 else ""
            text = f"has {sizes[group_id]} candidates ({ids}{more}), expected {group_size}"
            yield _Fault(group_id, None, text)
        yield from _group_faults(group_id, members, needs, latents=latents)


def _identity_faults(index: int, each: Trajectory) -> Iterator[_Fault]:
    for field in ("trajectory_id", "group_id"):
        value = getattr(each, field)
        if type(value) is not str or not value:
            name = each.trajectory_id if field == "group_id" and type(each.trajectory_id) is str else None
            yield _Fault(None, name or None, f"[{index}]: {field} has to be a filled string, got {describe(value)}")


def _group_faults(group_id: str, members: list[Trajectory], needs: Sequence[str], *, latents: bool) -> Iterator[_Fault]:
    for each in members:
        for text in chain(_latent_faults(each) if latents else _completion_faults(each), _record_faults(each)):
            yield _Fault(group_id, each.trajectory_id, text)
    observed = [each for each in members if isinstance(each.obs, Observation)]
    for need in needs:
        yield from _input_faults(group_id, observed, need)


def _latent_faults(each: Trajectory) -> Iterator[str]:
    if each.latent is None:
        hint = "" if each.completion is None else "; a rank-local provider scores latents, not its completion"
        yield f"its latent is missing (None){hint}"


def _completion_faults(each: Trajectory) -> Iterator[str]:
    if each.completion is None:
        hint = "" if each.latent is None else "; its latent is scored by a rank-local provider only"
        yield f"its completion is missing (None); an empty completion is the empty string{hint}"
    elif type(each.completion) is not str:
        yield f"its completion has to be a string, got {describe(each.completion)}"


def _record_faults(each: Trajectory) -> Iterator[str]:
    if not isinstance(each.obs, Observation):
        yield f"obs has to be an Observation, got {describe(each.obs)}"
    elif type(each.obs.id) is not str or each.obs.id != each.group_id:
        yield f"obs.id is {describe(each.obs.id)}, expected the group id {each.group_id!r}"
    if not isinstance(each.reward, dict):
        yield f"reward has to be a dict, got {describe(each.reward)}"
    if not isinstance(each.policy_info, dict):
        yield f"policy_info has to be a dict, got {describe(each.policy_info)}"
        return
    count, reason = each.policy_info.get("completion_token_count"), each.policy_info.get("finish_reason")
    if count is not None and (type(count) is not int or count < 0):
        yield f"completion_token_count has to be an int of at least 0 or None, got {describe(count)}"
    if reason is not None and type(reason) is not str:
        yield f"finish_reason has to be the engine's verdict as a string or None, got {describe(reason)}"


def _input_faults(group_id: str, members: list[Trajectory], need: str) -> Iterator[_Fault]:
    missing = [each for each in members if getattr(each.obs, need) is None]
    for each in missing:
        yield _Fault(group_id, each.trajectory_id, f"its {need} is missing or null, but a selected provider needs it")
    present = [each for each in members if getattr(each.obs, need) is not None]
    for each in present[1:]:
        found = first_difference(getattr(present[0].obs, need), getattr(each.obs, need), need)
        if found is not None:
            first = present[0].trajectory_id
            yield _Fault(
                group_id,
                each.trajectory_id,
                f"its {need} is not that of the group's first candidate {first!r}: {found}",
            )
