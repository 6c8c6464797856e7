# SPDX-License-Identifier: Apache-2.0
"""What a person sees of scores: short tables on standard output."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from rich.table import Table

from posttrain.rewards import GroupScores, RewardReport
from posttrain.rewards.stage.estimators import Estimator
from posttrain.runs.offline import Explanation

__all__ = ["explanation_tables", "report_table", "scores_table"]

_SHOWN: Final = 2000
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def report_table(report: RewardReport) -> Table:
    """The report of a scored file: one line a fact."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    final, scored = report.final, report.scored_group_count
    table.add_row(
        "groups", f"{report.group_count:,}" + (f", {report.dropped_count:,} dropped" if report.dropped else "")
    )
    for cause, times in sorted(report.dropped.items()):
        table.add_row("  dropped", f"{times:,} by {cause}")
    table.add_row("candidates", f"{report.candidate_count:,}")
    if final.count:
        table.add_row("reward", f"{final.mean:.4f} ± {final.std:.4f}, {final.low:g} to {final.high:g}")
    for term, mean in report.terms.items():
        table.add_row(f"  {term}", f"{mean.value:.4f}")
    table.add_row("zero spread", f"{_share(report.zero_spread_count, scored)} of the scored groups")
    table.add_row("truncated", _share(report.truncated_count, report.candidate_count))
    table.add_row("unknown finish", _share(report.unknown_finish_count, report.candidate_count))
    for name, provider in report.providers.items():
        for diagnostic, metric in provider.diagnostics.items():
            table.add_row(f"  {name}/{diagnostic}", f"{metric.value:g}")
    # A saved result of a validation has no timings.
    timed = {name: provider for name, provider in report.providers.items() if provider.slowest_group is not None}
    if timed:
        name, slow = max(timed.items(), key=lambda each: each[1].seconds)
        longest = f"{slow.slowest_seconds * 1e3:.1f} ms in {_text(slow.slowest_group)}"
        table.add_row("slowest", f"{slow.seconds:.2f} s in {name}, at most {longest}")
    return table


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "none"


def explanation_tables(explanation: Explanation, estimator: Estimator) -> list[Table]:
    """One candidate: what it is, what each provider saw, what came out beside its siblings."""
    candidate, group = explanation.candidate, explanation.group
    title = f"{_text(candidate.trajectory_id)}, in group {_text(group.group_id)}"
    seen = Table(title=title, title_justify="left", show_header=False)
    seen.add_column(style="bold")
    seen.add_column(overflow="fold")
    seen.add_row("rows", f"{explanation.rows[0]} to {explanation.rows[1]}, candidate {explanation.place}")
    seen.add_row("completion", _text(candidate.completion))
    seen.add_row("finish_reason", _text(candidate.finish_reason))
    seen.add_row("completion_token_count", str(candidate.completion_token_count))
    for name, context in explanation.contexts.items():
        seen.add_row(f"{name} saw prompt", _text(context.prompt))
        seen.add_row(f"{name} saw reference", _text(context.reference))
    if group.dropped_because is not None:
        seen.add_row("dropped", group.dropped_because)
        return [seen]
    note = " (the group taken as the batch)" if estimator.over_batch else ""
    columns = {**group.terms, "final": group.final, f"advantage{note}": group.advantages}
    return [seen, _columns_table(group.trajectory_ids, columns, explanation.place)]


def scores_table(scores: GroupScores) -> Table:
    """What one provider said of one group."""
    return _columns_table(scores.trajectory_ids, scores.terms, None)


def _columns_table(ids: Sequence[str], columns: Mapping[str, Sequence[float]], marked: int | None) -> Table:
    table = Table("trajectory", *columns)
    for place, (trajectory_id, *values) in enumerate(zip(ids, *columns.values(), strict=True)):
        style = "bold" if place == marked else None
        table.add_row(
            ("> " if place == marked else "") + _text(trajectory_id), *(f"{value:g}" for value in values), style=style
        )
    return table


def _text(value: Any) -> str:
    """A text as it is, anything else as JSON; nobody's rollouts may command the terminal."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text):,} characters)"
    return _CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)
