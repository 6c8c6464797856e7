# SPDX-License-Identifier: Apache-2.0
"""`posttrain opd`: on-policy distillation from its config to its report."""

from __future__ import annotations

from posttrain.cli.training import TrainingOptions, train

__all__ = ["opd"]


def opd(options: TrainingOptions) -> None:
    """Distil a frozen teacher into a policy, on the policy's own samples; rewards are observed, or take part.

    Example: posttrain opd --config recipes/opd_tiny.toml --run first
    """
    from posttrain.training.opd import run_opd

    train(options, run_opd)
