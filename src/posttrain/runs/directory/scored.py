# SPDX-License-Identifier: Apache-2.0
"""The rows of one step: what was asked and said, from the trajectories, and what became of it, from the outcome."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from posttrain.errors import RewardContractError, describe, listing
from posttrain.frozen import freeze
from posttrain.rewards import GroupOutcome, RewardOutcome
from posttrain.runs.records import RecordedCandidate
from posttrain.schema import Observation, Trajectory

__all__ = ["check_recorded", "encoded_rows", "rows_of"]

_encode = msgspec.json.Encoder().encode


def rows_of(
    step: int, trajectories: Sequence[Trajectory], outcome: RewardOutcome, *, inputs: bool
) -> list[RecordedCandidate]:
    """One row a candidate, in the order of the outcome; of a dropped group too, with no reward and no advantage.

    `prompt` and `reference` are JSON text (`msgspec.Raw`) there, encoded once for what a group shares.

    Args:
        step: the training step.
        trajectories: those that the outcome was computed for, in any order.
        outcome: what the stage made of them.
        inputs: whether prompt and reference are recorded.

    Raises:
        RewardContractError: the trajectories are not those of the outcome; or naming everything that JSON can't hold:
            a reward or an advantage that is no finite number, an input that is no JSON, a text with half a character.
    """
    by_id = _matched(trajectories, outcome)
    rows: list[RecordedCandidate] = []
    faults: list[str] = []
    for group in outcome.groups:
        members = [by_id[trajectory_id] for trajectory_id in group.trajectory_ids]
        shared = _Shared(faults)
        for member, (reward, advantage) in zip(members, _worth(group), strict=True):
            info, obs = member.policy_info, member.obs
            row = RecordedCandidate(
                trajectory_id=member.trajectory_id,
                group_id=member.group_id,
                step=step,
                row_id=obs.row_id,
                prompt=shared.encoded(member, "prompt") if inputs else None,
                reference=shared.encoded(member, "reference") if inputs else None,
                completion=member.completion,
                finish_reason=info.get("finish_reason"),
                completion_token_count=info.get("completion_token_count"),
                reward=reward,
                advantage=advantage,
                dropped_because=group.dropped_because,
            )
            faults += [f"{row.trajectory_id}: {fault}" for fault in _faults(row)]
            rows.append(row)
    if faults:
        raise RewardContractError(f"step {step} can't be recorded:\n{listing(faults)}")
    return rows


def encoded_rows(rows: Sequence[RecordedCandidate]) -> Iterator[bytes]:
    """JSON lines, in pieces."""
    buffer = bytearray()
    encode_into = msgspec.json.Encoder().encode_into
    for row in rows:
        encode_into(row, buffer, len(buffer))
        buffer += b"\n"
        if len(buffer) > 1 << 18:
            yield bytes(buffer)
            buffer.clear()
    yield bytes(buffer)


def check_recorded(row: RecordedCandidate) -> str | None:
    """What is wrong with a row that was read back; None when nothing is.

    A row is scored or not scored, and never in between: it has rewards, all finite, and an advantage, or none of them
    and the cause.
    """
    if row.dropped_because is not None:
        is_empty = not row.reward and row.advantage is None
        return None if is_empty else "it was dropped, and has a reward or an advantage all the same"
    if "final" not in row.reward:
        return "it has no reward['final'], and nothing says that it was dropped"
    if row.advantage is None:
        return "it has no advantage, and nothing says that it was dropped"
    return next(iter(_numbers_at_fault(row)), None)


def _worth(group: GroupOutcome) -> Iterator[tuple[dict[str, float], float | None]]:
    if group.dropped_because is None:
        yield from zip(group.rewards(), group.advantages, strict=True)
    else:
        yield from (({}, None) for _ in group.trajectory_ids)


def _matched(trajectories: Sequence[Trajectory], outcome: RewardOutcome) -> dict[str, Trajectory]:
    """Trajectories by id, after checking that they are exactly the outcome's."""
    groups = {each: group.group_id for group in outcome.groups for each in group.trajectory_ids}
    by_id: dict[str, Trajectory] = {}
    faults = []
    for each in trajectories:
        name = each.trajectory_id
        if name in by_id:
            faults.append(f"{name!r} stands more than once")
        elif name not in groups:
            faults.append(f"{name!r} is not in the outcome")
        elif each.group_id != groups[name]:
            faults.append(f"{name!r} is in group {each.group_id!r}, but was scored in {groups[name]!r}")
        by_id[name] = each
    faults += [f"{name!r} is in the outcome only" for name in groups if name not in by_id]
    if faults:
        raise RewardContractError(
            f"the trajectories are not those that the outcome was computed for:\n{listing(faults)}"
        )
    return by_id


class _Shared:
    """The inputs of one group as JSON text: its members mostly share the very objects."""

    def __init__(self, faults: list[str]) -> None:
        self._faults = faults
        self._last: dict[str, tuple[Any, msgspec.Raw | None]] = {}

    def encoded(self, member: Trajectory, name: str) -> msgspec.Raw | None:
        obs: Observation = member.obs
        value = obs.prompt if name == "prompt" else obs.reference
        if value is None:
            return None
        known = self._last.get(name)
        if known is None or known[0] is not value:
            known = self._last[name] = (value, self._encoded(member.trajectory_id, name, value))
        return known[1]

    def _encoded(self, trajectory_id: str, name: str, value: Any) -> msgspec.Raw | None:
        try:
            return msgspec.Raw(_encode(freeze(value, name)))
        except RewardContractError as error:
            lines = [line.strip() for line in error.message.splitlines()[1:]]
            self._faults += [f"{trajectory_id}: {line}; record without inputs, or keep JSON there" for line in lines]
        except UnicodeEncodeError as error:
            self._faults.append(f"{trajectory_id}: {name}: {_half_character(error)}")
        return None


def _faults(row: RecordedCandidate) -> Iterator[str]:
    yield from _numbers_at_fault(row)
    texts = ("trajectory_id", "group_id", "row_id", "completion", "finish_reason", "dropped_because")
    for name in texts:
        value = getattr(row, name)
        if value is None or (type(value) is str and value.isascii()):
            continue
        if type(value) is not str:
            yield f"{name}: expected a string, got {describe(value)}"
            continue
        try:
            value.encode()
        except UnicodeEncodeError as error:
            yield f"{name}: {_half_character(error)}"
    count = row.completion_token_count
    if count is not None and (type(count) is not int or count < 0):
        yield f"completion_token_count: expected a count, got {describe(count)}"


def _numbers_at_fault(row: RecordedCandidate) -> Iterator[str]:
    numbers = {f"reward {name!r}": value for name, value in row.reward.items()}
    if row.advantage is not None:
        numbers["advantage"] = row.advantage
    for name, value in numbers.items():
        if type(value) is not float or not math.isfinite(value):
            yield f"{name}: expected a finite float, got {describe(value)}"


def _half_character(error: UnicodeEncodeError) -> str:
    return f"the text has half a character (a lone surrogate) at {error.start}, which no file can hold: replace it"
