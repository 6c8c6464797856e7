# SPDX-License-Identifier: Apache-2.0
"""The options that say where the texts of a scored file are: the flags of `posttrain score`, by default as recorded."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Literal

from posttrain.cli.options import flag
from posttrain.errors import RewardConfigError
from posttrain.report import Scores
from posttrain.report.texts import rollouts_beside, rollouts_of
from posttrain.rollouts.columns import RolloutColumns
from posttrain.rollouts.grouping import parse_grouping
from posttrain.rollouts.source import RolloutSource

__all__ = ["TextOptions"]


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """Rollouts, with their columns and grouping; what is not given is as it was when they were scored.

    Rollouts that lie unchanged beside their scores need not be given.
    """

    rollouts: Annotated[
        Path | None,
        flag(
            "--rollouts", "The rollouts of a scored file: its texts. A run has its own. Beside the scores by default."
        ),
    ] = None
    group_by: Annotated[
        str | None,
        flag("--group-by", "How the rollouts were grouped; as recorded by default.", metavar="COL,...|consecutive:N"),
    ] = None
    group_id_column: Annotated[str | None, flag("--group-id-column", "As recorded by default.")] = None
    trajectory_id_column: Annotated[str | None, flag("--trajectory-id-column", "The same.")] = None
    prompt_column: Annotated[str | None, flag("--prompt-column", "The same.")] = None
    completion_column: Annotated[str | None, flag("--completion-column", "The same.")] = None
    completions_column: Annotated[str | None, flag("--completions-column", "The same.")] = None
    reference_column: Annotated[str | None, flag("--reference-column", "The same.")] = None
    finish_reason_column: Annotated[str | None, flag("--finish-reason-column", "The same.")] = None
    completion_token_count_column: Annotated[str | None, flag("--completion-token-count-column", "The same.")] = None
    peer: Annotated[
        Literal["trl", "verl", "verifiers", "inspect"] | None,
        flag("--from", "The tool that wrote the rollouts; as recorded by default."),
    ] = None
    render: Annotated[
        Literal["last"] | None, flag("--render", "The content of the last message; as recorded by default.")
    ] = None
    force: Annotated[bool, flag("--force", "Go on where rollouts are not those that were scored.")] = False

    def texts(self, scores: Scores) -> RolloutSource | None:
        """The rollouts of `scores`; None: none are given or found.

        Raises:
            RewardConfigError: they are not those that were scored, can't be read, or flags for them are given alone.
        """
        given = {each.name: getattr(self, f"{each.name}_column") for each in fields(RolloutColumns)}
        columns = {name: column for name, column in given.items() if column is not None}
        if self.rollouts is None and (columns or self.group_by or self.peer or self.render):
            raise RewardConfigError("columns, --group-by, --from and --render are for rollouts: give --rollouts too")
        path = rollouts_beside(scores) if self.rollouts is None else self.rollouts
        if path is None:
            return None
        return rollouts_of(
            scores,
            path,
            columns=columns,
            grouping=None if self.group_by is None else parse_grouping(self.group_by),
            peer=self.peer,
            render=self.render,
            force=self.force,
        )
