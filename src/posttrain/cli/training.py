# SPDX-License-Identifier: Apache-2.0
"""What the commands that train a language model share: their options, and the way from a config to the last line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from posttrain.cli.config import CONFIG_HELP, OVERRIDES_HELP
from posttrain.cli.console import plain_console
from posttrain.cli.importing import importable_from_here
from posttrain.cli.options import flag
from posttrain.cli.training_screen import trained_line, training_screen

if TYPE_CHECKING:
    from posttrain.runs import RLConfig
    from posttrain.training.online import Outcome, Watch

__all__ = ["RunFunction", "TrainingOptions", "train"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOptions:
    """What the user asked for."""

    overrides: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help=OVERRIDES_HELP)] = None
    config: Annotated[Path | None, flag("--config", CONFIG_HELP, metavar="FILE")] = None
    run: Annotated[str | None, flag("--run", "Name of the run: rl.run.name.", metavar="NAME")] = None
    resume: Annotated[
        bool, flag("--resume", "Go on with the run of that name from its last checkpoint; begin where none is.")
    ] = False


class RunFunction(Protocol):
    """A kind of training."""

    def __call__(self, config: RLConfig, *, resume: bool = False, watch: Watch = ...) -> Outcome:
        """Train, and say what came of it."""
        ...


def train(options: TrainingOptions, run: RunFunction) -> None:
    """Run a kind of training on a screen."""
    from posttrain.errors import RewardConfigError
    from posttrain.runs.config import Node, resolve_config

    importable_from_here()
    flags = {} if options.run is None else {"rl.run.name": Node(options.run, "--run", Path.cwd())}
    config = resolve_config(options.config, options.overrides or (), flags).config
    if options.resume and config.run.name is None:
        raise RewardConfigError("--resume needs the name of the run: --run NAME, or rl.run.name")
    console = plain_console()
    with training_screen(console) as watch:
        outcome = run(config, resume=options.resume, watch=watch)
    if outcome.report is not None:
        console.print(trained_line(outcome), soft_wrap=True)
