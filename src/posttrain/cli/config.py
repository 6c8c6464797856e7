# SPDX-License-Identifier: Apache-2.0
"""`posttrain config`: the config of a run as it is resolved, each value with where it came from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from posttrain.cli.options import flag

__all__ = ["CONFIG_HELP", "OVERRIDES_HELP", "ConfigOptions", "config"]

CONFIG_HELP = "The run's config, TOML or YAML; see docs/config.md."
OVERRIDES_HELP = "Keys of the config and their values, over the file: rl.group_size=8."


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigOptions:
    """What the user asked for."""

    overrides: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help=OVERRIDES_HELP)] = None
    config: Annotated[Path | None, flag("--config", CONFIG_HELP, metavar="FILE")] = None


def config(options: ConfigOptions) -> None:
    """Print the resolved config of a run as TOML, and where each value came from.

    Example: posttrain config --config run.toml rl.reward=gsm8k rl.group_size=8
    """
    from posttrain.runs.config import resolve_config

    typer.echo(resolve_config(options.config, options.overrides or ()).to_toml(), nl=False)
