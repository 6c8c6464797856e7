# SPDX-License-Identifier: Apache-2.0
"""GRPO: groups are sampled, the reward stage scores them, the loss sees its advantages. See `docs/grpo.md`."""

from __future__ import annotations

from posttrain.runs.config import RLConfig
from posttrain.training.online import SILENT, Outcome, Watch, run_online

__all__ = ["run_grpo"]


def run_grpo(config: RLConfig, *, resume: bool = False, watch: Watch = SILENT) -> Outcome:
    """Train a policy by GRPO; see `posttrain.training.online.run_online`."""
    return run_online(config, resume=resume, watch=watch)
