# SPDX-License-Identifier: Apache-2.0
"""The commands, and what a failure of each means to the shell."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, Final

import typer

from posttrain import __version__
from posttrain.cli.options import command_of

__all__ = ["application", "main"]

# Name of a command to what runs it and what its options are. Only the module of the command that is asked for is
# imported: together they take longer than scoring a small file does.
_COMMANDS: Final = {
    "score": ("score:score", "score_options:ScoreOptions"),
    "config": ("config:config", "config:ConfigOptions"),
    "preflight": ("preflight:preflight", "preflight:PreflightOptions"),
    "validate": ("validate:validate", "validate:ValidateOptions"),
    "grpo": ("grpo:grpo", "training:TrainingOptions"),
    "opd": ("opd:opd", "training:TrainingOptions"),
    "nft": ("nft:nft", "nft:NFTOptions"),
    "serve": ("serve:serve", "serve:ServeOptions"),
    "report": ("report:report", "report:ReportOptions"),
    "compare": ("compare:compare", "compare:CompareOptions"),
    "providers": ("providers:providers", "providers:ProvidersOptions"),
    "init-provider": ("init_provider:init_provider", "init_provider:InitProviderOptions"),
}


def application(arguments: Sequence[str]) -> typer.Typer:
    """The command line that these arguments need: the one command that they name, or all, to list or to correct."""
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
    app.callback()(_root)
    first = arguments[0] if arguments else ""
    for name in [first] if first in _COMMANDS else _COMMANDS:
        run, options = map(_named, _COMMANDS[name])
        app.command(name=name)(command_of(options, run))
    return app


def _named(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(f"posttrain.cli.{module}"), name)


def _version(wanted: bool) -> None:  # noqa: FBT001  # the shape that typer calls
    if wanted:
        typer.echo(f"posttrain {__version__}")
        raise typer.Exit


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
    application(sys.argv[1:])()
