# SPDX-License-Identifier: Apache-2.0
"""`posttrain report`: a run, or a scored file, as one HTML file that opens offline."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from posttrain.cli.console import plain_console
from posttrain.cli.options import flag
from posttrain.cli.score_options import ScoreOptions
from posttrain.cli.text_options import TextOptions
from posttrain.report import Scores, build_report, open_scores, write_report
from posttrain.rewards import RewardCombiner

__all__ = ["ReportOptions", "report"]


@dataclass(frozen=True, kw_only=True)
class _Reporting:
    source: Annotated[Path, typer.Argument(metavar="RUN|SCORED", help="A run's directory, or a scored file.")]
    out: Annotated[
        Path | None, flag("--out", "The HTML file; report.html in the run, or NAME.report.html beside the scores.")
    ] = None
    weight: Annotated[
        list[str] | None,
        flag("--weight", "Weight of a term, where none is recorded; again for several.", metavar="TERM=NUMBER"),
    ] = None
    table_candidates: Annotated[
        int,
        flag(
            "--table-candidates", "Candidates whose texts the file may hold; of more, a fair choice of groups.", min=1
        ),
    ] = 20_000


@dataclass(frozen=True, kw_only=True)
class ReportOptions(TextOptions, _Reporting):
    """What the user asked for."""

    def weights(self) -> dict[str, float] | None:
        """The weights that were given; None: none were.

        Raises:
            RewardConfigError: naming every text that is no weight.
        """
        if not self.weight:
            return None
        return dict(RewardCombiner(ScoreOptions(weight=self.weight).weights()).weights)


def report(options: ReportOptions) -> None:
    """Write a report of a run or of a scored file: one HTML file that opens offline.

    Example: posttrain report scored.jsonl --rollouts rollouts.jsonl
    """
    started = perf_counter()
    scores = open_scores(options.source)
    built = build_report(
        scores,
        rollouts=options.texts(scores),
        weights=options.weights(),
        table_candidates=options.table_candidates,
    )
    out = options.out or _default_out(scores)
    size = write_report(built, out)
    plain_console().print(
        f"wrote {out}: {size / 1e6:.1f} MB, {len(built.entries):,} groups with {built.candidates:,} candidates to "
        f"read, in {perf_counter() - started:.1f} s",
        soft_wrap=True,
    )


def _default_out(scores: Scores) -> Path:
    if scores.is_run:
        return scores.path / "report.html"
    name = scores.path.name
    for suffix in (".gz", ".zst", ".jsonl", ".parquet"):
        name = name.removesuffix(suffix)
    return scores.path.with_name(f"{name}.report.html")
