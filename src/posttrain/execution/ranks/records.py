# SPDX-License-Identifier: Apache-2.0
"""Trajectories as plain rows, and the copies that other ranks make of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, final

import msgspec

from posttrain.errors import RewardContractError, describe, listing
from posttrain.execution.ranks.plain import Plain
from posttrain.frozen import freeze, thaw
from posttrain.schema import Observation, Trajectory

__all__ = ["RemoteLatent", "Row", "as_copy", "as_rows"]

Row: TypeAlias = "list[Plain]"

_TEXTS = ("trajectory_id", "group_id", "completion")


@final
class RemoteLatent(msgspec.Struct, frozen=True):
    """Stands in a copy for a latent that lives on another rank and never leaves it."""

    rank: int
    """Who holds it."""


def as_rows(trajectories: Sequence[Trajectory], needs: Sequence[str]) -> list[Row]:
    """One plain row for each trajectory: what the stage reads of it, with the declared inputs, and no latent.

    Raises:
        RewardContractError: naming every field that can't travel.
    """
    faults = [f"[{index}]: {fault}" for index, each in enumerate(trajectories) for fault in _faults(each)]
    plain = _PlainInputs()
    rows: list[Row] = []
    for index, each in enumerate(trajectories if not faults else ()):
        inputs: list[Plain] = []
        for need in ("prompt", "reference"):
            try:
                inputs.append(plain.of(getattr(each.obs, need), need) if need in needs else None)
            except RewardContractError as error:
                faults.append(f"[{index}] trajectory {each.trajectory_id!r}: {error.message}")
        info = each.policy_info
        rows.append(
            [
                each.trajectory_id,
                each.group_id,
                each.obs.id,
                each.obs.row_id,
                *inputs,
                each.completion,
                each.latent is not None,
                info.get("completion_token_count"),
                info.get("finish_reason"),
            ]
        )
    if faults:
        raise RewardContractError(f"trajectories that can't be shown to the other ranks:\n{listing(faults)}")
    return rows


def as_copy(row: Sequence[Any], rank: int) -> Trajectory:
    """What another rank sees of a trajectory of `rank`."""
    trajectory_id, group_id, obs_id, row_id, prompt, reference, completion, has_latent, count, reason = row
    return Trajectory(
        trajectory_id=trajectory_id,
        group_id=group_id,
        obs=Observation(id=obs_id, prompt=prompt, reference=reference, row_id=row_id),
        completion=completion,
        latent=RemoteLatent(rank) if has_latent else None,
        policy_info={"completion_token_count": count, "finish_reason": reason},
    )


@final
class _PlainInputs:
    """Inputs as plain mutable data; what is shared between candidates stays shared."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[object, Plain]] = {}

    def of(self, value: Any, need: str) -> Plain:
        if type(value) is str or value is None:
            return value
        # The original is kept beside the copy, so that its id is not given to another object meanwhile.
        if id(value) not in self._made:
            self._made[id(value)] = (value, thaw(freeze(value, need)))
        return self._made[id(value)][1]


def _faults(each: Any) -> Iterator[str]:
    if not isinstance(each, Trajectory):
        yield f"expected a Trajectory, got {describe(each)}"
        return
    yield from (
        f"{name}: expected a string or None, got {describe(value)}"
        for name in _TEXTS
        if type(value := getattr(each, name)) not in {str, type(None)}
    )
    if not isinstance(each.obs, Observation):
        yield f"obs: expected an Observation, got {describe(each.obs)}"
    else:
        yield from (
            f"obs.{name}: expected a string or None, got {describe(value)}"
            for name in ("id", "row_id")
            if type(value := getattr(each.obs, name)) not in {str, type(None)}
        )
    if not isinstance(each.policy_info, dict):
        yield f"policy_info: expected a dict, got {describe(each.policy_info)}"
        return
    for name, kind in (("completion_token_count", int), ("finish_reason", str)):
        value = each.policy_info.get(name)
        if type(value) not in {kind, type(None)}:
            yield f"{name}: expected {kind.__name__} or None, got {describe(value)}"
