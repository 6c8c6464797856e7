# SPDX-License-Identifier: Apache-2.0
"""Rollouts written down whole, in one form wherever they come from, so that a later process scores exactly these."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, final

import msgspec

from posttrain.errors import RewardContractError, listing
from posttrain.frozen import freeze
from posttrain.rewards.stage.bind import bind
from posttrain.rewards.stage.stage import RewardStage
from posttrain.rollouts.source import RolloutSource
from posttrain.runs.offline.record import sha256_of, size_of
from posttrain.schema import Trajectory

__all__ = ["HeldOutRollouts", "RolloutLines", "SavedRollouts", "saved_in"]

HeldOutRollouts: TypeAlias = Sequence[Trajectory] | RolloutSource
"""What a validation begins with: the trajectories of whole groups in any order, or a file of them."""

_STRETCH: Final = 2048
"""Candidates that are checked at a time where they come from a file."""


@final
class SavedRollouts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What tells one file of saved rollouts from every other."""

    name: Literal["rollouts.jsonl"] = "rollouts.jsonl"
    """Of the file, in the validation's folder."""
    groups: int
    candidates: int
    bytes: int
    """Size of the file."""
    sha256: str
    """Of the file, in hexadecimal."""

    def differences(self, recorded: SavedRollouts) -> list[str]:
        """One line for each field in which `recorded` is another."""
        return [
            f"rollouts.{name}: recorded {before}, now {now}"
            for name in self.__struct_fields__
            if (before := getattr(recorded, name)) != (now := getattr(self, name))
        ]


_Texts: TypeAlias = dict[tuple[str, int], msgspec.Raw]
"""Name of an input and identity of its object to its JSON text."""

_encode = msgspec.json.Encoder().encode_into


class _Row(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One candidate: the names of a `RecordedCandidate` as far as they are known before it is scored."""

    trajectory_id: str
    group_id: str
    row_id: str | None = None
    prompt: msgspec.Raw | None = None
    reference: msgspec.Raw | None = None
    completion: str | None
    finish_reason: str | None = None
    completion_token_count: int | None = None


@final
class RolloutLines:
    """The JSON lines of rollouts, each group held to the contract first and counted as it goes by.

    An input that a provider reads is written exactly. One that none reads is written for people to look at, and left
    out where it is no JSON, an image for example.

    Args:
        rollouts: what to write.
        stage: what will score them.
    """

    def __init__(self, rollouts: HeldOutRollouts, stage: RewardStage) -> None:
        self._rollouts = rollouts
        self._stage = stage
        self._declared = {need for spec in stage.selection.specs for need in spec.needs}
        self._digest = hashlib.sha256()
        self._groups = self._candidates = self._bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        """The lines, in pieces of whole groups; once.

        Raises:
            RewardConfigError: the file can't be read.
            RewardContractError: there are none, or rows or groups are at fault: see `posttrain.rewards.stage.bind`.
        """
        for stretch in self._stretches():
            lines = self._lines(stretch)
            self._digest.update(lines)
            self._bytes += len(lines)
            yield lines
        if not self._groups:
            raise RewardContractError("there are no rollouts to validate: name a file that holds some")

    def saved(self) -> SavedRollouts:
        """What was written, once all of it was."""
        return SavedRollouts(
            groups=self._groups, candidates=self._candidates, bytes=self._bytes, sha256=self._digest.hexdigest()
        )

    def _stretches(self) -> Iterator[list[Trajectory]]:
        if not isinstance(self._rollouts, RolloutSource):
            yield list(self._rollouts)
            return
        groups = self._rollouts.groups()
        size = max(1, _STRETCH // self._stage.group_size)
        while stretch := list(islice(groups, size)):
            yield [each for group in stretch for each in group.trajectories]

    def _lines(self, trajectories: list[Trajectory]) -> bytes:
        bound = bind(trajectories, self._stage.selection, self._stage.group_size)
        by_id = {each.trajectory_id: each for each in trajectories}
        lines = bytearray()
        faults: list[str] = []
        for group in bound:
            members = [by_id[trajectory_id] for trajectory_id in group.trajectory_ids]
            faults += self._append(lines, members)
        if faults:
            raise RewardContractError(f"the rollouts can't be saved as JSON:\n{listing(faults)}")
        self._groups += len(bound)
        self._candidates += len(trajectories)
        return bytes(lines)

    def _append(self, lines: bytearray, members: Iterable[Trajectory]) -> list[str]:
        """Append a group's lines; what can't be written, in words."""
        faults = []
        known: _Texts = {}
        for member in members:
            info = member.policy_info
            try:
                row = _Row(
                    trajectory_id=member.trajectory_id,
                    group_id=member.group_id,
                    row_id=member.obs.row_id,
                    prompt=self._input("prompt", member.obs.prompt, known),
                    reference=self._input("reference", member.obs.reference, known),
                    completion=member.completion,
                    finish_reason=info.get("finish_reason"),
                    completion_token_count=info.get("completion_token_count"),
                )
                _encode(row, lines, len(lines))
            except UnicodeEncodeError as error:
                faults.append(f"trajectory {member.trajectory_id!r}: a text holds half a character: {error}")
            lines += b"\n"
        return faults

    def _input(self, name: str, value: Any, known: _Texts) -> msgspec.Raw | None:
        """An input as JSON text, made once where the members of a group share the object."""
        key = name, id(value)
        if value is not None and key not in known:
            try:
                known[key] = msgspec.Raw(msgspec.json.encode(freeze(value, name)))
            except (RewardContractError, UnicodeEncodeError):
                if name in self._declared:
                    raise
        return known.get(key)


def saved_in(path: Path, recorded: SavedRollouts) -> SavedRollouts:
    """What the file of saved rollouts is now; its counts are taken from the record where its bytes are the same.

    Raises:
        RewardConfigError: it can't be read.
    """
    size = size_of(path)
    return msgspec.structs.replace(recorded, bytes=size, sha256=sha256_of(path))
