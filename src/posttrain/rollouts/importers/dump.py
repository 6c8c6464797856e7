# SPDX-License-Identifier: Apache-2.0
"""A source of rollouts over a dump of another tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, final

from posttrain.errors import RewardConfigError, describe
from posttrain.rollouts.columns import RolloutColumns
from posttrain.rollouts.grouping import Grouping
from posttrain.rollouts.importers.inspect_log import INSPECT
from posttrain.rollouts.importers.messages import RENDERS
from posttrain.rollouts.importers.peer import Peer, Reading
from posttrain.rollouts.importers.trl import TRL
from posttrain.rollouts.importers.verifiers import VERIFIERS
from posttrain.rollouts.importers.verl import VERL
from posttrain.rollouts.opened import OpenRows
from posttrain.rollouts.source import RolloutSource

__all__ = ["PEERS", "PeerDump", "dump_source"]

PEERS: Final[Mapping[str, Peer]] = {each.name: each for each in (TRL, VERL, VERIFIERS, INSPECT)}
"""The tools whose dumps are read, by the value of ``--from``."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PeerDump:
    """How the rows of one tool's dump are read."""

    peer: Peer
    reading: Reading

    def open(self, path: Path) -> OpenRows:
        """Open a dump.

        Raises:
            RewardConfigError: it can't be read, or what reads it is not installed.
        """
        return self.peer.open(path, self.reading)

    def describe(self) -> dict[str, Any]:
        """Whose dump it is, and which text of a completion of messages counts."""
        return {"from": self.peer.name, "render": self.reading.render}


def dump_source(
    path: str | Path,
    peer: str,
    *,
    columns: RolloutColumns | None = None,
    grouping: Grouping | None = None,
    needs: Sequence[str] = (),
    render: str | None = None,
) -> RolloutSource:
    """Read another tool's dump as rollouts; `docs/importers.md` says which field becomes what.

    Args:
        path: the file.
        peer: one of `PEERS`.
        columns: names that differ from those of our own files win over the tool's.
        grouping: how rows become groups; the tool's own way by default.
        needs: which of prompt and reference every row must have.
        render: ``last`` to take the last message's content where a completion is several messages.

    Raises:
        RewardConfigError: no such peer or render, its rows need a `grouping`, or columns, grouping and needs don't fit
            together.
    """
    known = PEERS.get(peer)
    if known is None:
        raise RewardConfigError(f"--from {peer}: expected one of {', '.join(PEERS)}")
    if render is not None and render not in RENDERS:
        raise RewardConfigError(f"--render: expected one of {', '.join(RENDERS)}, got {describe(render)}")
    grouping = known.grouping if grouping is None else grouping
    if grouping is None:
        raise RewardConfigError(f"{Path(path).name} can't be cut into groups: {known.ungrouped}")
    ours, given = asdict(RolloutColumns()), asdict(columns or RolloutColumns())
    named = {role: name for role, name in given.items() if name != ours[role]}
    roles = {**known.fields, **named}
    if not grouping.is_by_group_id:
        roles.pop("group_id", None)
    elif "group_id" not in roles:
        raise RewardConfigError(f"{known.title} has no group ids; set --group-by or --group-id-column")
    names = {each.name: roles.get(each.name, ours[each.name]) for each in fields(RolloutColumns)}
    group_by = grouping.columns or ((roles["group_id"],) if grouping.is_by_group_id else ())
    reading = Reading(roles=roles, group_by=group_by, needs=tuple(needs), render=render)
    return RolloutSource(
        path, RolloutColumns(**names), grouping, needs=needs, dump=PeerDump(peer=known, reading=reading)
    )
