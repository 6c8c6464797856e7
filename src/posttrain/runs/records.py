# SPDX-License-Identifier: Apache-2.0
"""The layout of a run on disk, and the one shape of a recorded candidate: writers and readers share both.

runs/<name>/
  config.toml                 the resolved config
  provenance.json             what made the scores: version, catalog, providers, identities, fingerprints, lineage
  .lock                       held by the process that records
  metrics.jsonl               one or more objects a step: {"step": 10, "time": <Unix seconds>, "<metric>": ...}
  scored/step-00000010.jsonl  the candidates of a step, a `RecordedCandidate` a line; or .parquet, the same columns
  state.json                  the reward state of the last checkpoint: step, identities, report
  validation/step-00000010/   one held-out validation: its record, its rollouts, its scores
  failed-request-*.json       kept failing requests, private
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

__all__ = [
    "CONFIG_FILE",
    "METRICS_FILE",
    "PROVENANCE_FILE",
    "SCORED_FOLDER",
    "STATE_FILE",
    "VALIDATION_FOLDER",
    "RecordedCandidate",
    "step_name",
]

CONFIG_FILE: Final = "config.toml"
PROVENANCE_FILE: Final = "provenance.json"
METRICS_FILE: Final = "metrics.jsonl"
SCORED_FOLDER: Final = "scored"
STATE_FILE: Final = "state.json"
VALIDATION_FOLDER: Final = "validation"


class RecordedCandidate(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One candidate with what it was asked, what it said, and what the stage made of it.

    A scored file of `posttrain score` has the same names and leaves the texts out: they are in its rollouts.
    """

    trajectory_id: str
    group_id: str
    step: int = 0
    """Training step; 0 for a file that was scored offline."""
    row_id: str | None = None
    """Stable id of the data row."""
    prompt: Any = None
    reference: Any = None
    completion: str | None = None
    finish_reason: str | None = None
    completion_token_count: int | None = None
    reward: dict[str, float]
    """Every term, raw, and ``final``; empty when the group was dropped."""
    advantage: float | None
    """None: the group was dropped."""
    dropped_because: str | None = None


def step_name(step: int) -> str:
    """Name of a step's file or folder, which sorts by step."""
    return f"step-{step:08d}"
