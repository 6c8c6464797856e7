# SPDX-License-Identifier: Apache-2.0
"""`posttrain preflight`: what a run would be made with, and whether it may begin."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from posttrain.cli.config import CONFIG_HELP, OVERRIDES_HELP
from posttrain.cli.console import plain_console
from posttrain.cli.importing import importable_from_here
from posttrain.cli.options import flag

if TYPE_CHECKING:
    from posttrain.rewards.catalog.fingerprint import SourceFingerprint

__all__ = ["PreflightOptions", "preflight"]

_OUT: Final = 1
_ERR: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightOptions:
    """What the user asked for."""

    overrides: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help=OVERRIDES_HELP)] = None
    config: Annotated[Path | None, flag("--config", CONFIG_HELP, metavar="FILE")] = None
    rows: Annotated[int, flag("--rows", "How many of the first rows of the data are looked at.", min=1)] = 8
    deadline: Annotated[
        float, flag("--deadline", "Seconds that a fresh process has to construct the providers.", min=0.001)
    ] = 60.0
    against: Annotated[
        Path | None,
        flag("--against", "A recorded run: warn where a source changed and its revision did not.", metavar="RUN"),
    ] = None
    probe: Annotated[bool, flag("--probe", "Open managed providers, score golden completions, and close them.")] = False
    golden: Annotated[
        str | None,
        flag(
            "--golden",
            "Function (prompt, reference) that gives completions which deserve a reward; with --probe.",
            metavar="pkg.mod:fn|file.py:fn",
        ),
    ] = None
    golden_rows: Annotated[int, flag("--golden-rows", "How many of the first rows it is asked about.", min=1)] = 4
    as_json: Annotated[bool, flag("--json", "Print the report as JSON.")] = False


def preflight(options: PreflightOptions) -> None:
    """Check a run before a model loads: catalog, providers, identities, data.

    Example: posttrain preflight --config run.toml
    """
    from posttrain.cli.preflight_screen import report_lines
    from posttrain.runs.checks import preflight as check
    from posttrain.runs.config import load_config

    importable_from_here()
    config = load_config(options.config, options.overrides or ())
    recorded = _recorded(options.against)
    with _prints_on_standard_error():
        report = check(
            config,
            recorded=recorded,
            rows=options.rows,
            deadline_s=options.deadline,
            probe=options.probe,
            golden=options.golden,
            golden_rows=options.golden_rows,
        )
    if options.as_json:
        import msgspec

        typer.echo(msgspec.json.format(msgspec.json.encode(report.to_json()), indent=2).decode())
    else:
        console = plain_console()
        for line in report_lines(report):
            console.print(line)
    if report.exit_code:
        raise typer.Exit(report.exit_code)


def _recorded(run: Path | None) -> tuple[SourceFingerprint, ...]:
    if run is None:
        return ()
    from posttrain.runs.directory import read_provenance
    from posttrain.runs.records import PROVENANCE_FILE

    return read_provenance(run / PROVENANCE_FILE if run.is_dir() else run).sources


@contextmanager
def _prints_on_standard_error() -> Iterator[None]:
    """Keep what a catalog or a provider prints out of the report, which alone goes to standard output."""
    sys.stdout.flush()
    kept = os.dup(_OUT)
    try:
        os.dup2(_ERR, _OUT)
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, _OUT)
        os.close(kept)
