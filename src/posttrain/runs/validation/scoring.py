# SPDX-License-Identifier: Apache-2.0
"""Score the rollouts of one validation, from the beginning or from where an earlier process had come to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from posttrain.rewards.stage.stage import RewardStage
from posttrain.rollouts.journal import Journal
from posttrain.rollouts.source import RolloutSource
from posttrain.runs.offline import Progress
from posttrain.runs.offline.failure import keeping_failed_request
from posttrain.runs.offline.record import json_bytes
from posttrain.runs.offline.scoring import put_rows, score_rest, told_of_leftovers
from posttrain.runs.sinks.files import put
from posttrain.runs.validation.estimates import held_out_metrics
from posttrain.runs.validation.layout import ValidationFiles
from posttrain.runs.validation.record import ValidationRecord
from posttrain.runs.validation.result import ValidationResult, read_result, result_bytes

__all__ = ["score_validation"]


def score_validation(
    stage: RewardStage,
    files: ValidationFiles,
    record: ValidationRecord,
    *,
    catalog: str | None,
    failed_request: Path,
    watch: Callable[[Progress], None] | None,
) -> ValidationResult:
    """Score what is not scored yet, then put metrics, result and scores in place; of a complete one, read the result.

    The scores come last: where they are, the rest is too.

    Args:
        stage: of the identity that is recorded.
        files: where the validation lies.
        record: what is recorded there, checked.
        catalog: path of the catalog, for a failing request that is kept.
        failed_request: where that is kept.
        watch: told after every stretch of groups; when it raises, what was scored is kept.

    Raises:
        RewardConfigError: the file system refuses, a file is damaged, or another process scores this validation.
        RewardContractError: the provider or its results are at fault.
        RewardUnavailableError: an outside service could not answer, or too many groups were dropped.
    """
    if files.is_complete:
        return read_result(files.result, record)
    header = record.to_json()
    with (
        keeping_failed_request(stage.selection, catalog, failed_request),
        Journal.resume(files.scores, header) or Journal.begin(files.scores, header) as journal,
    ):
        if journal.state is None and files.scores.exists() and files.result.exists():
            # Another process came to the end between our look at the files and our hold of the journal.
            journal.discard()
            return read_result(files.result, record)
        source = RolloutSource(files.rollouts)
        report, resumed_groups = score_rest(stage, source, journal, out=files.scores, watch=watch)
        if journal.is_finished:
            journal.finish()
            return read_result(files.result, record)
        with told_of_leftovers(files.scores):
            metrics = report.metrics() | held_out_metrics(journal.lines(), stage.combiner.weights, record.n_generation)
            content = result_bytes(record, report, metrics)
            put(files.metrics, json_bytes(metrics))
            put(files.result, content)
            put_rows(stage, report, journal, header, files.scores)
    return ValidationResult(step=record.step, report=report, metrics=metrics, resumed_groups=resumed_groups)
