# SPDX-License-Identifier: Apache-2.0
"""`posttrain grpo`: a GRPO run from its config to its report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from posttrain.cli.config import CONFIG_HELP, OVERRIDES_HELP
from posttrain.cli.console import plain_console
from posttrain.cli.importing import importable_from_here
from posttrain.cli.options import flag
from posttrain.cli.training_screen import trained_line, training_screen

__all__ = ["GRPOOptions", "grpo"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GRPOOptions:
    """What the user asked for."""

    overrides: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help=OVERRIDES_HELP)] = None
    config: Annotated[Path | None, flag("--config", CONFIG_HELP, metavar="FILE")] = None
    run: Annotated[str | None, flag("--run", "Name of the run: rl.run.name.", metavar="NAME")] = None
    resume: Annotated[
        bool, flag("--resume", "Go on with the run of that name from its last checkpoint; begin where none is.")
    ] = False


def grpo(options: GRPOOptions) -> None:
    """Train a policy by GRPO: preflight, training with held-out validation, checkpoints, report.

    Example: posttrain grpo --config recipes/grpo_tiny.toml --run first
    """
    from posttrain.errors import RewardConfigError
    from posttrain.runs.config import Node, resolve_config
    from posttrain.training.grpo import run_grpo

    importable_from_here()
    flags = {} if options.run is None else {"rl.run.name": Node(options.run, "--run", Path.cwd())}
    config = resolve_config(options.config, options.overrides or (), flags).config
    if options.resume and config.run.name is None:
        raise RewardConfigError("--resume needs the name of the run: --run NAME, or rl.run.name")
    console = plain_console()
    with training_screen(console) as watch:
        outcome = run_grpo(config, resume=options.resume, watch=watch)
    if outcome.report is not None:
        console.print(trained_line(outcome), soft_wrap=True)
