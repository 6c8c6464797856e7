# SPDX-License-Identifier: Apache-2.0
"""How a training run gets on, for people: a bar on standard error, lines on standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from posttrain.cli.preflight_screen import report_lines
from posttrain.training.online.watch import Watch

if TYPE_CHECKING:
    from posttrain.runs.checks import PreflightReport
    from posttrain.training.online import Outcome

__all__ = ["trained_line", "training_screen"]


@contextmanager
def training_screen(console: Console) -> Iterator[Watch]:
    """What a run is to tell of itself."""
    is_terminal = sys.stderr.isatty()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[reward]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not is_terminal) as bar:
        task = bar.add_task("warm start", total=None, reward="")

        def checked(report: PreflightReport) -> None:
            if report.verdict == "ok":
                console.print(f"preflight: ready ({report.seconds:.2f} s)")
                return
            for line in report_lines(report):
                console.print(line)

        def stepped(step: int, steps: int, reward: float | None) -> None:
            shown = "" if reward is None else f"reward {reward:.3f}"
            bar.update(task, description="training", completed=step, total=steps, reward=shown)

        def validated(step: int, mean: float | None) -> None:
            console.print(f"step {step}: held-out reward {'not scored' if mean is None else f'{mean:.4f}'}")

        yield Watch(
            checked=checked,
            warned=lambda line: console.print(f"warning: {line}", soft_wrap=True),
            warmed=lambda step, steps: bar.update(task, completed=step, total=steps),
            stepped=stepped,
            validated=validated,
        )


def trained_line(outcome: Outcome) -> str:
    """The line at the end of a run."""
    parts = [f"{outcome.steps} steps"]
    if outcome.after is not None and outcome.before is not None:
        parts.append(f"held-out reward {outcome.before:.4f} -> {outcome.after:.4f}")
    return f"trained: {', '.join(parts)}; report: {outcome.report}"
