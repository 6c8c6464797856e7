# SPDX-License-Identifier: Apache-2.0
"""One validation whose rollouts are saved: to be scored here, or beside the training, or by a later process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, final

from posttrain.rewards.stage.stage import RewardStage
from posttrain.runs.offline import Progress
from posttrain.runs.validation.background import Background, RunningValidation
from posttrain.runs.validation.layout import ValidationFiles
from posttrain.runs.validation.record import ValidationRecord
from posttrain.runs.validation.result import ValidationResult
from posttrain.runs.validation.scoring import score_validation

__all__ = ["PendingValidation"]


@final
class PendingValidation:
    """A validation on disk, held to the identity of the run that has it. Made by `HeldOutValidation`."""

    def __init__(
        self,
        files: ValidationFiles,
        record: ValidationRecord,
        *,
        stage: RewardStage,
        catalog: str | None,
        background: Background,
    ) -> None:
        self.record: Final = record
        """What it is, and what alone may score it."""
        self._files = files
        self._stage = stage
        self._catalog = catalog
        self._background = background

    def __repr__(self) -> str:
        state = "complete" if self.is_complete else "pending"
        return f"PendingValidation(step={self.record.step}, {state}, {str(self.folder)!r})"

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return self._files.folder

    @property
    def is_complete(self) -> bool:
        """Whether every group is scored or dropped, by this process or by another."""
        return self._files.is_complete

    def complete(
        self, watch: Callable[[Progress], None] | None = None, *, failed_request: Path | None = None
    ) -> ValidationResult:
        """Score what is not scored yet and give the result; of a complete one, the result that is there.

        It waits while another validation of the same `HeldOutValidation` is scored. What was scored survives a failure
        and a kill, up to the last second: calling again goes on from there.

        Args:
            watch: told after every stretch of groups.
            failed_request: where a failing request is kept, by default in the validation's folder.

        Raises:
            RewardError: see `posttrain.runs.validation.scoring`.
        """
        with self._background.turn:
            return score_validation(
                self._stage,
                self._files,
                self.record,
                catalog=self._catalog,
                failed_request=failed_request or self.folder / "failed-request.json",
                watch=watch,
            )

    def start(self, watch: Callable[[Progress], None] | None = None) -> RunningValidation:
        """`complete` beside the training: in another thread, after those that were started before.

        The providers are instances of their own, which no other thread calls. One that keeps state outside of its
        instance must allow that training calls its own at the same time.

        Args:
            watch: told after every stretch of groups, in that thread.
        """
        return self._background.start(self.record.step, self.folder, self.complete, watch)
