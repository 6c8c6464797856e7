# SPDX-License-Identifier: Apache-2.0
"""The guard that lets no id of a file be used twice, in a few bytes an id."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

from posttrain.rollouts.assembly import Draft
from posttrain.rollouts.digests import DigestSet

__all__ = ["Suspect", "UsedIds", "first_uses"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """An id that was perhaps used before, with the place at which it stands now."""

    is_group: bool
    """Whether it is the mark of a group rather than the id of a trajectory."""
    name: str | bytes
    row: int
    place: tuple[int, int]
    """Ordinal of the group in the file and of the candidate in the group."""


@final
class UsedIds:
    """Remembers the ids of all groups and trajectories that it was shown.

    Args:
        bits: length of the digests, see `DigestSet`.
    """

    __slots__ = ("_groups", "_trajectories")

    def __init__(self, *, bits: int = 64) -> None:
        self._groups = DigestSet(bits=bits)
        self._trajectories = DigestSet(bits=bits)

    def add(self, draft: Draft, trajectory_ids: list[str]) -> list[Suspect]:
        """Remember the ids of a group; those that were perhaps there before, to be looked into with `first_uses`."""
        suspects = []
        mark = _group_mark(draft)
        if mark is not None and self._groups.add(mark):
            suspects.append(Suspect(is_group=True, name=mark, row=draft.first_row, place=(draft.index, 0)))
        add = self._trajectories.add
        for at, trajectory_id in enumerate(trajectory_ids):
            if add(trajectory_id):
                place = (draft.index, at)
                suspects.append(Suspect(is_group=False, name=trajectory_id, row=draft.row_of(at), place=place))
        return suspects


def first_uses(suspects: Iterable[Suspect], drafts: Iterable[Draft]) -> dict[Suspect, int | None]:
    """For each suspect the row that used its id first; None: it is itself the first, and the suspicion was wrong.

    Args:
        suspects: what to look for.
        drafts: the file's groups, from its beginning.

    Raises:
        LookupError: a suspect is not among the groups at all: the file is not the one that it came from.
    """
    wanted = {(suspect.is_group, suspect.name) for suspect in suspects}
    last = max(suspect.place[0] for suspect in suspects)
    found: dict[tuple[bool, str | bytes], tuple[tuple[int, int], int]] = {}
    for draft in drafts:
        if draft.index > last:
            break
        mark = _group_mark(draft)
        if mark is not None and (True, mark) in wanted:
            found.setdefault((True, mark), ((draft.index, 0), draft.first_row))
        for at, trajectory_id in enumerate(draft.trajectory_ids()):
            if (False, trajectory_id) in wanted:
                found.setdefault((False, trajectory_id), ((draft.index, at), draft.row_of(at)))
    uses: dict[Suspect, int | None] = {}
    for suspect in suspects:
        place, row = found[suspect.is_group, suspect.name]
        uses[suspect] = None if place == suspect.place else row
    return uses


def _group_mark(draft: Draft) -> str | bytes | None:
    """What has to be unique about a group: its key columns, or its id. Nothing where groups are runs of rows."""
    mark = draft.mark
    if isinstance(mark, int):
        return None
    return draft.group_id if mark is None else mark
