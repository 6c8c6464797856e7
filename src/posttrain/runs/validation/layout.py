# SPDX-License-Identifier: Apache-2.0
"""The files of one validation, and how far it has come.

    rollouts.jsonl         its rollouts, a candidate a line
    scores.identity.json   its record: step, providers, identities, digest of the rollouts; there once it has begun
    scores.jsonl           the scores, a candidate a line; there when every group is scored or dropped
    metrics.json           the metrics; there before the scores are
    result.json            metrics and exact report; the same

The names are those of `posttrain score`, so that what reads a scored file reads this one. Until it is complete, the
journal of the scores lies beside them (see `posttrain.rollouts.journal`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, final

from posttrain.rollouts.journal import Journal

__all__ = ["RECORD_FILE", "ValidationFiles"]

RECORD_FILE: Final = "scores.identity.json"


@final
class ValidationFiles:
    """The paths of one validation's files.

    Args:
        folder: where they lie.
    """

    __slots__ = ("folder", "fresh_rollouts", "metrics", "record", "result", "rollouts", "scores")

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder
        self.record: Final = folder / RECORD_FILE
        self.rollouts: Final = folder / "rollouts.jsonl"
        self.fresh_rollouts: Final = folder / ".rollouts.jsonl.new"
        """The rollouts of a validation that is about to begin: whole, but not in their place yet."""
        self.scores: Final = folder / "scores.jsonl"
        self.metrics: Final = folder / "metrics.json"
        self.result: Final = folder / "result.json"

    @property
    def is_complete(self) -> bool:
        """Whether every group is scored or dropped, and the result is written."""
        return self.scores.exists() and self.result.exists() and not Journal.leftover(self.scores)

    def strangers(self) -> list[str]:
        """Names of files that are in the place of a validation's although none has begun here."""
        if self.record.exists():
            return []
        return [each.name for each in (self.rollouts, self.scores, self.metrics, self.result) if each.exists()]
