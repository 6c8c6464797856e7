# SPDX-License-Identifier: Apache-2.0
"""The rollouts that `posttrain score` reads: JSONL of ours, or another tool's dump."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from posttrain.cli.score_options import ScoreOptions
from posttrain.errors import RewardConfigError
from posttrain.rollouts.columns import RolloutColumns
from posttrain.rollouts.grouping import parse_grouping
from posttrain.rollouts.importers import detected_peer, dump_source
from posttrain.rollouts.source import RolloutSource

__all__ = ["source_of"]

_BINARY = frozenset({"trl", "inspect"})
"""Peers whose files are no JSONL, so that nothing else can be meant."""


def source_of(options: ScoreOptions, rollouts: Path, columns: RolloutColumns, needs: Sequence[str]) -> RolloutSource:
    """The rollouts under the options.

    Without ``--from``, a dump is recognised by its content; one of JSONL only where no column is named, since whoever
    names columns knows what the file holds.

    Args:
        options: what the user asked for.
        rollouts: the file.
        columns: the columns that flags or config name.
        needs: which of prompt and reference every row must have.

    Raises:
        RewardConfigError: the file can't be read, or columns, grouping and needs don't fit together.
    """
    grouping = parse_grouping(options.group_by)
    peer = options.peer or detected_peer(rollouts)
    is_ours = options.peer is None and peer not in _BINARY and columns != RolloutColumns()
    if peer is None or is_ours:
        if options.render is not None:
            raise RewardConfigError("--render is for dumps of other tools: set --from too")
        return RolloutSource(rollouts, columns, grouping, needs=needs)
    return dump_source(
        rollouts,
        peer,
        columns=columns,
        grouping=None if options.group_by is None else grouping,
        needs=needs,
        render=options.render,
    )
