# SPDX-License-Identifier: Apache-2.0
"""Score a file of rollouts: group after group, in flat memory, durable, and resumable under the same identity."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, Final, final

import msgspec

from posttrain.errors import RewardConfigError, RewardContractError, RewardUnavailableError
from posttrain.rewards.metrics.report import RewardReport
from posttrain.rewards.stage.annotate import annotate_groups
from posttrain.rewards.stage.stage import EvaluatedGroups, RewardStage
from posttrain.rollouts.journal import Journal
from posttrain.rollouts.source import START, Position, RolloutGroup, RolloutSource
from posttrain.runs.offline.batch_pass import annotated_rows
from posttrain.runs.offline.outputs import Outputs, planned_outputs
from posttrain.runs.offline.record import encode_rows, json_bytes, provenance

__all__ = ["FileScores", "Progress", "put_rows", "score_file", "score_rest", "told_of_leftovers"]

_CHECKPOINT_SECONDS: Final = 1.0
_CHUNK_SECONDS: Final = 0.25
_MOST_CANDIDATES: Final = 2048


@final
class Progress(msgspec.Struct, frozen=True):
    """How far a run has come."""

    consumed: int
    """Bytes of the rollout file that were read, compressed ones where it is compressed."""
    groups: int
    """Groups that are scored or dropped, an earlier run's included."""
    candidates: int


@final
class FileScores(msgspec.Struct, frozen=True, kw_only=True):
    """What scoring a file gave."""

    report: RewardReport
    resumed_groups: int = 0
    """Groups that an earlier, interrupted run had scored."""
    written: tuple[Path, ...] = ()
    """The files that were written: scored rows, metrics, identity, as far as they were asked for."""


@final
class _State(msgspec.Struct, frozen=True):
    """What a checkpoint holds beside the rows."""

    position: Position
    report: RewardReport


def score_file(
    stage: RewardStage,
    source: RolloutSource,
    *,
    out: Path | None = None,
    metrics: Path | None = None,
    resume: bool = False,
    restart: bool = False,
    watch: Callable[[Progress], None] | None = None,
) -> FileScores:
    """Score every group of `source`; with `out`, write the rows, the metrics and the identity.

    Each group whose rows stand together is scored and let go, so memory does not grow with the file. A group's
    advantages do not depend on the rest of the file, but for an estimator over the batch: there the whole file is the
    batch, and a second pass over the scored rows annotates them. The ceiling on dropped groups is held against the
    whole file, at its end.

    Args:
        stage: the stage, of a `RewardWorker`.
        source: the rollouts.
        out: the scored file, a JSON line a candidate; written beside itself and renamed when whole.
        metrics: the metrics file; ``metrics.json`` beside `out` by default, none without `out`.
        resume: go on with an interrupted run under the same identity; begin when there is none.
        restart: throw an interrupted run away.
        watch: told after every stretch of groups; when it raises, what was scored is kept as after a failure.

    Raises:
        RewardConfigError: an interrupted run is there and neither `resume` nor `restart` is asked for, or what it was
            run with differs; an output would overwrite another file of the run; the file system refuses.
        RewardContractError: rows, the provider or its results are at fault. What was scored before stays resumable.
        RewardUnavailableError: an outside service could not answer, or too many groups were dropped.
    """
    _check_modes(out, resume=resume, restart=restart)
    outputs = planned_outputs(source.path, out, metrics)
    header = provenance(stage, source) if out is not None else {}
    outputs.make_folders()
    with ExitStack() as held:
        journal = None
        if out is not None:
            journal = held.enter_context(_journal(out, header, resume=resume, restart=restart))
        report, resumed_groups = score_rest(stage, source, journal, out=out, watch=watch)
        with told_of_leftovers(out):
            written = _publish(stage, report, journal, header, outputs)
        return FileScores(report=report, resumed_groups=resumed_groups, written=written)


def score_rest(
    stage: RewardStage,
    source: RolloutSource,
    journal: Journal | None,
    *,
    out: Path | None,
    watch: Callable[[Progress], None] | None,
) -> tuple[RewardReport, int]:
    """Score the groups that an open journal does not hold yet, and hold the whole against the ceiling on dropped ones.

    Args:
        stage: the stage.
        source: the rollouts.
        journal: where the rows go, with a checkpoint about once a second and at the end; None: nowhere.
        out: the journal's target, for what a failure says.
        watch: see `score_file`.

    Returns:
        The report of all groups, and how many of them the journal held already.

    Raises:
        RewardError: see `score_file`.
    """
    state = None if journal is None else _recorded(journal)
    start = state.position if state is not None else START
    report = state.report if state is not None else RewardReport(namespace=stage.namespace)
    if journal is None or not journal.is_finished:
        with told_of_leftovers(out):
            report = _score_groups(stage, source, start, report, journal, watch)
    _check_dropped(stage, report)
    return report, start.groups


def _check_modes(out: Path | None, *, resume: bool, restart: bool) -> None:
    if resume and restart:
        raise RewardConfigError(
            "--resume goes on with an interrupted run and --restart throws it away: give one of them"
        )
    if out is None and (resume or restart):
        raise RewardConfigError(f"--{'resume' if resume else 'restart'} needs --out, beside which the earlier run lies")


@contextmanager
def told_of_leftovers(out: Path | None) -> Iterator[None]:
    """Let a failure or an interrupt say that work is left to go on with."""
    try:
        yield
    except BaseException as error:
        if out is not None and Journal.leftover(out):
            error.add_note(f"What was scored is kept beside {out}: go on with --resume, or begin anew with --restart")
        raise


def _check_dropped(stage: RewardStage, report: RewardReport) -> None:
    try:
        stage.check_dropped(report)
    except RewardUnavailableError as error:
        error.add_note("--resume does not ask for dropped groups again: score the file anew, with --restart")
        raise


def _journal(out: Path, header: dict[str, Any], *, resume: bool, restart: bool) -> Journal:
    found = Journal.resume(out, header) if resume else None
    return found if found is not None else Journal.begin(out, header, overwrite=restart)


def _recorded(journal: Journal) -> _State | None:
    if journal.state is None:
        return None
    try:
        return msgspec.convert(journal.state, _State)
    except msgspec.ValidationError as error:
        raise RewardConfigError(f"{journal!r} holds no state of this command: {error}") from error


def _score_groups(
    stage: RewardStage,
    source: RolloutSource,
    start: Position,
    report: RewardReport,
    journal: Journal | None,
    watch: Callable[[Progress], None] | None,
) -> RewardReport:
    state, saved_at = _State(start, report), perf_counter()
    progress: Progress | None = None
    chunks = _evaluated_chunks(stage, source.groups(start))
    while True:
        try:
            if progress is not None and watch is not None:
                watch(progress)
            step = next(chunks, None)
        except BaseException:
            # What was scored before may have been paid for.
            if journal is not None:
                _save(journal, state)
            raise
        if step is None:
            break
        chunk, evaluated = step
        if journal is not None:
            journal.append(_rows(stage, evaluated))
        state = _State(chunk[-1].end, state.report.merge(evaluated.report))
        if journal is not None and perf_counter() - saved_at >= _CHECKPOINT_SECONDS:
            _save(journal, state)
            saved_at = perf_counter()
        progress = Progress(chunk[-1].progress, state.report.group_count, state.report.candidate_count)
    if journal is not None:
        _save(journal, state)
    if not state.report.group_count:
        raise RewardContractError(f"{source.path} holds no rollouts")
    return state.report


def _rows(stage: RewardStage, evaluated: EvaluatedGroups) -> bytes:
    if stage.estimator.over_batch:
        return bytes(encode_rows(evaluated.outcomes))
    return bytes(encode_rows(annotate_groups(evaluated.outcomes, stage.estimator, 1.0)))


def _save(journal: Journal, state: _State) -> None:
    """Make what was scored durable; of a run that has not scored anything, leave nothing."""
    if state.report.group_count:
        journal.checkpoint(msgspec.to_builtins(state))
    else:
        journal.discard()


def _evaluated_chunks(
    stage: RewardStage, groups: Iterator[RolloutGroup]
) -> Iterator[tuple[list[RolloutGroup], EvaluatedGroups]]:
    """Stretches of groups with their scores: long enough to keep the provider busy, short enough to save often."""
    smallest = max(1, 4 * stage.evaluator.groups_in_flight) if stage.evaluator.groups_in_flight > 1 else 1
    largest = max(smallest, _MOST_CANDIDATES // stage.group_size)
    size = smallest
    while chunk := list(islice(groups, size)):
        started = perf_counter()
        evaluated = stage.evaluate([each for group in chunk for each in group.trajectories])
        yield chunk, evaluated
        took = perf_counter() - started
        size = min(largest, size * 2) if took < _CHUNK_SECONDS else max(smallest, size // 2)


def _publish(
    stage: RewardStage, report: RewardReport, journal: Journal | None, header: dict[str, Any], outputs: Outputs
) -> tuple[Path, ...]:
    """The scored rows come last: where they are, the rest is too."""
    if outputs.identity is not None:
        outputs.put(outputs.identity, json_bytes(header))
    if outputs.metrics is not None:
        outputs.put(outputs.metrics, json_bytes(report.metrics()))
    if outputs.rows is not None and journal is not None:
        put_rows(stage, report, journal, header, outputs.rows)
    return tuple(filter(None, (outputs.rows, outputs.metrics, outputs.identity)))


def put_rows(stage: RewardStage, report: RewardReport, journal: Journal, header: dict[str, Any], rows: Path) -> None:
    """Put the journal's rows in their place, with their advantages, and end the work.

    Args:
        stage: the stage; where its estimator needs the whole batch, the rows get their advantages now.
        report: that of all rows.
        journal: the rows; it is closed.
        header: the journal's.
        rows: the journal's target.

    Raises:
        RewardConfigError: the file system refuses.
    """
    if not stage.estimator.over_batch:
        journal.finish()
        return
    scale = stage.estimator.batch_scale(report.final)
    Outputs(rows=rows).put(rows, annotated_rows(journal.lines(), stage.estimator, scale))
    journal.close()
    # Emptied first: a kill between the removal of the two files would leave one that no resume can judge.
    Journal.begin(rows, header, overwrite=True).discard()
