# SPDX-License-Identifier: Apache-2.0
"""The rollouts that a scored file was made from, opened as they were when they were scored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

from posttrain.errors import RewardConfigError
from posttrain.report.reading import Scores
from posttrain.rollouts.columns import RolloutColumns
from posttrain.rollouts.grouping import BY_GROUP_ID, Grouping, by_columns, parse_grouping
from posttrain.rollouts.importers import detected_peer, dump_source
from posttrain.rollouts.source import RolloutSource
from posttrain.runs.offline.record import sha256_of

__all__ = ["rollouts_beside", "rollouts_of"]


def rollouts_beside(scores: Scores) -> Path | None:
    """The rollouts that a scored file was made from, where they lie beside it unchanged.

    Raises:
        RewardConfigError: the file that has their name can't be read.
    """
    facts = scores.facts
    name, recorded = facts.rollouts.get("name"), facts.rollouts.get("sha256")
    if scores.is_run or not isinstance(name, str) or Path(name).name != name:
        return None
    path = scores.path.with_name(name)
    return path if path.is_file() and sha256_of(path) == recorded else None


def rollouts_of(
    scores: Scores,
    path: Path,
    *,
    columns: Mapping[str, str] | None = None,
    grouping: Grouping | None = None,
    peer: str | None = None,
    render: str | None = None,
    force: bool = False,
) -> RolloutSource:
    """The texts of `scores`.

    Whatever is left out is as it is recorded beside the scores; where nothing is, as `posttrain score` would have it.

    Args:
        scores: a scored file; a run holds its texts itself.
        path: its rollouts.
        columns: field of `RolloutColumns` to column.
        grouping: how their rows become groups.
        peer: whose dump they are.
        render: which text of a completion of messages counts.
        force: take them even if they are not the ones whose digest is recorded.

    Raises:
        RewardConfigError: the scores are a run's, the rollouts are other ones, or can't be read.
    """
    facts = scores.facts
    if scores.is_run:
        raise RewardConfigError(f"{scores.path} is a run, whose rows hold their texts: leave --rollouts out")
    recorded = facts.rollouts.get("sha256")
    if recorded is not None and not force and sha256_of(path) != recorded:
        raise RewardConfigError(
            f"{path} is not what {scores.path.name} was scored from: that was {facts.rollouts.get('name')!r} with "
            f"SHA-256 {recorded}. Give that file; or --force, to join what has the same ids."
        )
    names = {each.name for each in fields(RolloutColumns)}
    chosen = RolloutColumns(
        **{role: name for role, name in {**facts.columns, **(columns or {})}.items() if role in names}
    )
    grouping = grouping or _recorded_grouping(facts.grouping)
    peer = peer or facts.dump.get("from")
    if peer is None and recorded is None and not columns:
        peer = detected_peer(path)
    if peer is None:
        return RolloutSource(path, chosen, grouping or BY_GROUP_ID)
    return dump_source(path, peer, columns=chosen, grouping=grouping, render=render or facts.dump.get("render"))


def _recorded_grouping(text: str | None) -> Grouping | None:
    if text is None:
        return None
    kind, _, columns = text.partition(":")
    if kind == "columns":
        return by_columns(json.loads(columns))
    return BY_GROUP_ID if text == BY_GROUP_ID.describe() else parse_grouping(text)
