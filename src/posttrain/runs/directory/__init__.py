# SPDX-License-Identifier: Apache-2.0
"""A run on disk: who writes it, what made it, and how it is read back."""

from posttrain.runs.directory.directory import RecordSettings, RunDirectory
from posttrain.runs.directory.provenance import Ancestor, Provenance, read_provenance
from posttrain.runs.directory.recorded import RecordedRun
from posttrain.runs.directory.state import RewardState
from posttrain.runs.directory.tally import ScoreTally, tally

__all__ = [
    "Ancestor",
    "Provenance",
    "RecordSettings",
    "RecordedRun",
    "RewardState",
    "RunDirectory",
    "ScoreTally",
    "read_provenance",
    "tally",
]
