# SPDX-License-Identifier: Apache-2.0
"""`posttrain opd`: on-policy distillation from its config to its report."""

from __future__ import annotations

from pathlib import Path

from posttrain.cli.console import plain_console
from posttrain.cli.grpo import GRPOOptions
from posttrain.cli.importing import importable_from_here
from posttrain.cli.training_screen import trained_line, training_screen

__all__ = ["opd"]


def opd(options: GRPOOptions) -> None:
    """Distil a frozen teacher into a policy, on the policy's own samples; rewards are observed, or take part.

    Example: posttrain opd --config recipes/opd_tiny.toml --run first
    """
    from posttrain.errors import RewardConfigError
    from posttrain.runs.config import Node, resolve_config
    from posttrain.training.opd import run_opd

    importable_from_here()
    flags = {} if options.run is None else {"rl.run.name": Node(options.run, "--run", Path.cwd())}
    config = resolve_config(options.config, options.overrides or (), flags).config
    if options.resume and config.run.name is None:
        raise RewardConfigError("--resume needs the name of the run: --run NAME, or rl.run.name")
    console = plain_console()
    with training_screen(console) as watch:
        outcome = run_opd(config, resume=options.resume, watch=watch)
    if outcome.report is not None:
        console.print(trained_line(outcome), soft_wrap=True)
