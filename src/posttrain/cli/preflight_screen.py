# SPDX-License-Identifier: Apache-2.0
"""The report of preflight on one screen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rich.console import RenderableType
from rich.table import Table

from posttrain.runs.checks import PreflightReport
from posttrain.runs.checks.report import GoldenScore

__all__ = ["report_lines"]

_HASH: Final = 12
_GOLDEN: Final = 12
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_STYLES: Final = {"ok": "green", "warning": "yellow", "failed": "bold red", "skipped": "dim"}


def report_lines(report: PreflightReport) -> Iterator[RenderableType]:
    """What is selected, each check with its verdict, then the verdict over all."""
    if report.providers:
        yield _selected(report)
        yield ""
    yield _checks(report)
    if report.golden:
        yield ""
        yield _golden(report.golden)
    yield ""
    yield _verdict(report)


def _selected(report: PreflightReport) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("provider", "for", "revision", "identity", "needs", "terms", "in flight"):
        table.add_column(column, overflow="fold", no_wrap=column == "identity")
    for each in report.providers:
        identity = each.identity
        table.add_row(
            identity.provider,
            ", ".join(each.used_for),
            _shown(identity.revision),
            identity.sha256[:_HASH],
            ", ".join(each.needs) or "-",
            ", ".join(each.terms),
            str(each.groups_in_flight),
        )
    return table


def _checks(report: PreflightReport) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in report.checks:
        table.add_row(check.verdict, check.name, "\n".join(map(_shown, check.lines)), style=_STYLES[check.verdict])
    return table


def _golden(scores: tuple[GoldenScore, ...]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("golden row", "provider", "gave", "completion"):
        table.add_column(column, overflow="fold")
    for each in scores[:_GOLDEN]:
        terms = ", ".join(f"{term} {value:g}" for term, value in each.terms.items())
        table.add_row(_shown(each.row), each.provider, terms, _shown(each.completion))
    if len(scores) > _GOLDEN:
        table.add_row(f"... {len(scores) - _GOLDEN} more", "", "", "")
    return table


def _verdict(report: PreflightReport) -> str:
    counts = {verdict: sum(check.verdict == verdict for check in report.checks) for verdict in _STYLES}
    warnings = "1 warning" if counts["warning"] == 1 else f"{counts['warning']} warnings"
    if counts["failed"]:
        wrong = f"{counts['failed']} of {len(report.checks)} checks failed"
        words = f"not ready: {wrong}" + (f", {warnings}" if counts["warning"] else "")
    else:
        words = f"ready, with {warnings}" if counts["warning"] else "ready"
    return f"{words} ({report.seconds:.2f} s)"


def _shown(text: str) -> str:
    """Nobody's text may command the terminal."""
    return _CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)
