# SPDX-License-Identifier: Apache-2.0
"""The commands, and what a failure of each means to the shell."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from posttrain import __version__
from posttrain.cli.compare import CompareOptions, compare
from posttrain.cli.config import ConfigOptions, config
from posttrain.cli.init_provider import InitProviderOptions, init_provider
from posttrain.cli.options import command_of
from posttrain.cli.preflight import PreflightOptions, preflight
from posttrain.cli.providers import ProvidersOptions, providers
from posttrain.cli.report import ReportOptions, report
from posttrain.cli.score import score
from posttrain.cli.score_options import ScoreOptions
from posttrain.cli.serve import ServeOptions, serve
from posttrain.cli.validate import ValidateOptions, validate

__all__ = ["app", "main"]

app = typer.Typer(
    name="posttrain",
    help="Execute rewards for online RL post-training: whole groups in, exact advantages out, or nothing at all.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    # The markup would cut what is wider than a column: a flag, or the key that it stands for.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done; 2 bad usage or set-up; 3 a contract was broken; 4 an outside service failed.",
)
app.command(name="score")(command_of(ScoreOptions, score))
app.command(name="config")(command_of(ConfigOptions, config))
app.command(name="preflight")(command_of(PreflightOptions, preflight))
app.command(name="validate")(command_of(ValidateOptions, validate))
app.command(name="serve")(command_of(ServeOptions, serve))
app.command(name="report")(command_of(ReportOptions, report))
app.command(name="compare")(command_of(CompareOptions, compare))
app.command(name="providers")(command_of(ProvidersOptions, providers))
app.command(name="init-provider")(command_of(InitProviderOptions, init_provider))


def _version(wanted: bool) -> None:  # noqa: FBT001  # the shape that typer calls
    if wanted:
        typer.echo(f"posttrain {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    del version


def main() -> None:
    """Run the command line; a failure of Posttrain's is one message on standard error and its own exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A report must not be lost to a character that the terminal's encoding lacks.
            stream.reconfigure(errors="backslashreplace")
    app()
