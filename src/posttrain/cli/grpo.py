# SPDX-License-Identifier: Apache-2.0
"""`posttrain grpo`: a GRPO run from its config to its report."""

from __future__ import annotations

from posttrain.cli.training import TrainingOptions, train

__all__ = ["grpo"]


def grpo(options: TrainingOptions) -> None:
    """Train a policy by GRPO: preflight, training with held-out validation, checkpoints, report.

    Example: posttrain grpo --config recipes/grpo_tiny.toml --run first
    """
    from posttrain.training.grpo import run_grpo

    train(options, run_grpo)
