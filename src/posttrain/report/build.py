# SPDX-License-Identifier: Apache-2.0
"""From scores to the report's file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, final

import msgspec

from posttrain.errors import RewardConfigError
from posttrain.report.collect import Collected
from posttrain.report.facts import Facts
from posttrain.report.group import ScoredGroup
from posttrain.report.joining import with_texts
from posttrain.report.page import page
from posttrain.report.privacy import mode_of
from posttrain.report.reading import Scores
from posttrain.report.sample import Sample
from posttrain.report.summary import made_by, overall, summary
from posttrain.report.table import GroupEntry, entry_of, table_columns
from posttrain.rewards.metrics.moments import Moments
from posttrain.rollouts.atomic import write_atomically
from posttrain.rollouts.source import RolloutSource

__all__ = ["Report", "build_report", "write_report"]


@final
class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A report before it is written."""

    title: str
    data: dict[str, Any]
    """What the page shows."""
    entries: list[GroupEntry]
    """The groups of the table, in order."""
    mode: int
    """Permissions of the file, see `posttrain.report.privacy`."""

    @property
    def candidates(self) -> int:
        """How many candidates can be read in the table."""
        return sum(each.size for each in self.entries)


def build_report(
    scores: Scores,
    *,
    rollouts: RolloutSource | None = None,
    weights: Mapping[str, float] | None = None,
    table_candidates: int = 20_000,
) -> Report:
    """Read all scores once and add them up.

    Charts and totals are over all groups and hold a few numbers a step. The table holds its groups' texts, compressed:
    all groups where they have at most `table_candidates` candidates, else a choice in which each group had the same
    chance, beside the slowest groups.

    Args:
        scores: what to report on.
        rollouts: where the texts of a scored file are; a run has them itself.
        weights: term to weight, in place of the recorded ones.
        table_candidates: how many candidates the table may hold.

    Raises:
        RewardConfigError: a file can't be read, or there is nothing in it.
        RewardContractError: rows are at fault, or do not belong together.
    """
    facts = scores.facts
    collected = Collected(facts.weights if weights is None else weights)
    sample: Sample[GroupEntry] = Sample(table_candidates, frozenset(each.group_id for each in facts.slowest))
    for group in _groups(scores, rollouts):
        numbers = collected.add(group)
        sample.offer(group.step, group.group_id, len(group.candidates), partial(entry_of, group, numbers))
    if not sample.offered and not facts.metrics:
        raise RewardConfigError(f"{scores.path} holds no scores and no metrics yet: there is nothing to report")
    facts = _own_metrics(scores, collected, overall(collected))
    entries = sorted(sample.kept(), key=lambda each: each.step)
    data = {
        "kind": "report",
        "title": scores.name,
        "made": made_by(facts),
        "notes": [*facts.notes, *_text_notes(scores, collected)],
        **summary(collected, facts),
        "table": {
            "columns": table_columns(entries, collected.ranges),
            "offered": sample.offered,
            "partial": sample.is_partial,
        },
    }
    mode = mode_of([*scores.files, *([] if rollouts is None else [rollouts.path])])
    return Report(title=f"{scores.name} · Posttrain report", data=data, entries=entries, mode=mode)


def write_report(report: Report, out: Path) -> int:
    """Write the file, whole or not at all; its size in bytes.

    Raises:
        RewardConfigError: the file system refuses.
    """
    blocks = [each.block for each in report.entries]
    write_atomically(out, page(report.title, report.data, blocks), mode=report.mode)
    return out.stat().st_size


def _groups(scores: Scores, rollouts: RolloutSource | None) -> Iterator[ScoredGroup]:
    return scores.groups() if rollouts is None else with_texts(scores.groups(), rollouts)


def _own_metrics(scores: Scores, collected: Collected, finals: Moments) -> Facts:
    """The facts, without metrics that lie beside a scored file and are another file's."""
    facts = scores.facts
    if scores.is_run or not facts.metrics:
        return facts
    count = sum(each.groups for each in collected.steps.values())
    namespace = facts.namespace or "train"
    mean = facts.metrics.get(f"{namespace}/reward/final/mean", {}).get(0)
    if facts.metrics.get(f"{namespace}/group/count", {}).get(0) == count and (
        mean == (finals.mean if finals.count else None)
    ):
        return facts
    note = "metrics.json beside the scores is another file's, so no provider diagnostics are shown"
    return msgspec.structs.replace(facts, metrics={}, notes=(*facts.notes, note))


def _text_notes(scores: Scores, collected: Collected) -> list[str]:
    if collected.has_texts or not collected.steps:
        return []
    if scores.is_run:
        return ["The run's rows hold no completions."]
    return ["The texts lie in the rollouts: give them with --rollouts to read prompts and completions here."]
