# SPDX-License-Identifier: Apache-2.0
"""`HeldOutValidation`: the validations of one run, by providers of its own catalog."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, final

import msgspec

from posttrain.errors import RewardConfigError, RewardError, listing
from posttrain.rewards import GroupEvaluator, RewardCatalog, RewardWorker
from posttrain.rollouts.atomic import sync_folder
from posttrain.rollouts.journal import Journal
from posttrain.runs.sinks.files import make_folder, put, refusals
from posttrain.runs.sinks.sink import check_step
from posttrain.runs.validation.background import Background
from posttrain.runs.validation.layout import ValidationFiles
from posttrain.runs.validation.pending import PendingValidation
from posttrain.runs.validation.record import ValidationRecord, read_record
from posttrain.runs.validation.rollouts import HeldOutRollouts, RolloutLines, saved_in
from posttrain.runs.validation.same_catalog import check_same_catalog

if TYPE_CHECKING:
    from posttrain.runs.config import RLConfig

__all__ = ["HeldOutValidation", "is_due"]


@final
class HeldOutValidation:
    """Validates held-out rollouts of a run: ``rl.validation.reward`` chooses other names of the run's catalog.

    The providers are resolved from the config's path, as training's are, and from nothing else. A context manager:
    leaving it waits for what was started; leaving it by an exception stops that, and it stands pending.

    Args:
        config: the run's config; whether ``rl.validation.enabled`` is set is for the caller to ask, see `is_due`.
        catalog: the catalog that training runs with, ``worker.stage.selection.catalog``. It is held against the one
            that the config's path resolves to and never run; None: there is none to compare.
        evaluator: where groups are evaluated; None: in this process.

    Raises:
        RewardConfigError: the catalog is not the run's, or a name, a weight or a factory is at fault.

    Example:
        ::

            with HeldOutValidation(config, catalog=worker.stage.selection.catalog) as validation:
                pending = validation.begin(trajectories, step, validation_folder(run.path, step))
                running = pending.start()
                ...  # training goes on
                run.metrics.write(step, running.result().metrics)
    """

    def __init__(
        self, config: RLConfig, *, catalog: RewardCatalog | None = None, evaluator: GroupEvaluator | None = None
    ) -> None:
        self.worker: RewardWorker = config.worker(namespace="val", evaluator=evaluator)
        if catalog is not None:
            check_same_catalog(self.worker.stage.selection.catalog, catalog)
        self._catalog = config.catalog_path
        self._background = Background()

    def __repr__(self) -> str:
        return f"HeldOutValidation({self.worker!r})"

    def __enter__(self) -> HeldOutValidation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        for failure in self._end(stop=True):
            error.add_note(_told(failure))

    def begin(
        self, rollouts: HeldOutRollouts, step: int, folder: str | Path, *, overwrite: bool = False
    ) -> PendingValidation:
        """Save rollouts whole, and beside them what alone may score them. Nothing is scored yet.

        When this returns, the validation survives a kill: `resume` takes it up.

        Args:
            rollouts: the trajectories of whole groups of ``rl.validation.n_generation``, or a file of them.
            step: training step that they are of; 0 where there is none.
            folder: of this validation alone, see `validation_folder`; it is made if it is missing.
            overwrite: throw a validation away that is there. It may be the one whose rollouts are given.

        Raises:
            RewardConfigError: a validation is there already, or files that are none of one; another process scores it;
                or the file system refuses.
            RewardContractError: the step is none, or rows or groups are at fault, see `posttrain.rewards.stage.bind`;
                a validation that was there is untouched.
        """
        check_step(step)
        files = ValidationFiles(Path(folder))
        _refuse_taken(files, overwrite=overwrite)
        make_folder(files.folder)
        lines = RolloutLines(rollouts, self.worker.stage)
        put(files.fresh_rollouts, lines, mode=0o600)
        record = ValidationRecord.of(self.worker.stage_identity, step, lines.saved())
        if overwrite:
            _clear(files)
        put(files.record, record.encode())
        _take_rollouts(files)
        return self._pending(files, record)

    def resume(
        self, folder: str | Path, *, step: int | None = None, rollouts: HeldOutRollouts | None = None
    ) -> PendingValidation:
        """Take a validation up that has begun, under the very identity that it began under.

        Args:
            folder: of the validation.
            step: the step that it should be of; None: whichever it is.
            rollouts: what it should validate; None: what it saved.

        Raises:
            RewardConfigError: there is none; or it does not record what scores it, or that is another now, or its
                rollouts are: every field that differs is told, and no score was read.
        """
        files = ValidationFiles(Path(folder))
        recorded = read_record(files.folder)
        if recorded is None:
            raise RewardConfigError(f"no validation has begun in {folder}: begin one, or name its folder")
        # A kill may have come between the record and the rollouts' own name.
        is_named = files.rollouts.exists() or not files.fresh_rollouts.exists()
        saved = saved_in(files.rollouts if is_named else files.fresh_rollouts, recorded.rollouts)
        expected_step = recorded.step if step is None else step
        _refuse_other(files, recorded, ValidationRecord.of(self.worker.stage_identity, expected_step, saved))
        if not is_named:
            _take_rollouts(files)
        if rollouts is not None:
            lines = RolloutLines(rollouts, self.worker.stage)
            for _ in lines:
                pass
            _refuse_other(files, recorded, msgspec.structs.replace(recorded, rollouts=lines.saved()))
        return self._pending(files, recorded)

    def close(self) -> None:
        """Wait for every validation that was started, and close the providers.

        Raises:
            RewardError: one failed whose `result` nobody asked for; others that failed are told in its notes.
        """
        failures = self._end(stop=False)
        if failures:
            for other in failures[1:]:
                failures[0].add_note(_told(other))
            raise failures[0]

    def _end(self, *, stop: bool) -> list[BaseException]:
        failures = self._background.close(stop=stop)
        try:
            self.worker.close()
        except RewardError as error:
            failures.append(error)
        return failures

    def _pending(self, files: ValidationFiles, record: ValidationRecord) -> PendingValidation:
        return PendingValidation(
            files, record, stage=self.worker.stage, catalog=self._catalog, background=self._background
        )


def is_due(config: RLConfig, step: int, *, last: bool) -> bool:
    """Whether a run validates after a training step. Off by default.

    Args:
        config: ``rl.validation.enabled`` and ``rl.validation.interval`` decide.
        step: number of the step, counted from 1.
        last: whether it is the run's last one, which is always followed by a validation.
    """
    settings = config.validation
    return settings.enabled and (last or (settings.interval is not None and step % settings.interval == 0))


def _refuse_taken(files: ValidationFiles, *, overwrite: bool) -> None:
    if strangers := files.strangers():
        raise RewardConfigError(
            f"{files.folder} holds {', '.join(strangers)}, but no validation: name a folder of its own"
        )
    if files.record.exists() and not overwrite:
        state = "complete" if files.is_complete else "pending"
        raise RewardConfigError(
            f"{files.folder} holds a validation that is {state}: go on with --resume, or throw it away with --restart"
        )


def _clear(files: ValidationFiles) -> None:
    """Take the scores of an earlier validation away; its record is replaced afterwards."""
    # Whoever scores it holds this journal, and is not robbed of it.
    Journal.begin(files.scores, None, overwrite=True).discard()
    with refusals(files.folder):
        # Scores come last and go first: where they are, the rest is too.
        for each in (files.scores, files.result, files.metrics, files.rollouts):
            each.unlink(missing_ok=True)
        sync_folder(files.folder)


def _take_rollouts(files: ValidationFiles) -> None:
    with refusals(files.rollouts):
        files.fresh_rollouts.replace(files.rollouts)
        sync_folder(files.folder)


def _refuse_other(files: ValidationFiles, recorded: ValidationRecord, now: ValidationRecord) -> None:
    lines = now.differences(recorded)
    if lines:
        raise RewardConfigError(
            f"{files.folder} holds a validation that began as another one, and one validation has one reward:\n"
            f"{listing(lines)}\n"
            f"Go on as it began, or score its rollouts ({files.rollouts.name}) anew in another folder."
        )


def _told(failure: BaseException) -> str:
    notes = getattr(failure, "__notes__", ())
    return "\n".join([f"{type(failure).__name__}: {failure}", *notes])
