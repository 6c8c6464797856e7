# SPDX-License-Identifier: Apache-2.0
"""`posttrain score`: saved rollouts in; scores, advantages and a report out."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

from posttrain.cli.console import plain_console
from posttrain.cli.importing import importable_from_here
from posttrain.cli.progress import progress_bar
from posttrain.cli.score_options import ScoreOptions
from posttrain.cli.score_run import described_run, rollouts_of
from posttrain.cli.score_source import source_of
from posttrain.cli.tables import explanation_tables, report_table, scores_table
from posttrain.errors import RewardConfigError
from posttrain.rewards import GroupEvaluator, RewardWorker
from posttrain.rollouts.source import RolloutSource
from posttrain.runs.offline import explain, load_failed_request, replay, score_file
from posttrain.runs.offline.failure import keeping_failed_request
from posttrain.runs.offline.record import size_of

__all__ = ["score"]


def score(options: ScoreOptions) -> None:
    """Score saved rollouts: rewards, advantages and a report.

    Example: posttrain score rollouts.jsonl --reward gsm8k --group-size 4 --reference-column answer --out scored.jsonl
    """
    importable_from_here()
    run = described_run(options)
    catalog = options.catalog if run is None else run.catalog_path
    if options.replay is not None:
        _replay(options.replay, catalog)
        return
    rollouts = options.required()[0] if run is None else rollouts_of(options, run)
    size = size_of(rollouts)
    worker = _worker_of_flags(options) if run is None else run.worker(namespace=options.namespace)
    columns = options.columns() if run is None else run.rollout_columns()
    selection = worker.stage.selection
    needs = sorted({need for spec in selection.specs for need in spec.needs})
    source = source_of(options, rollouts, columns, needs)
    with worker, keeping_failed_request(selection, catalog, _failed_request_file(options.out)):
        if options.explain is not None:
            _explain(worker, source, options.explain)
        else:
            _score(worker, source, size, options)


def _worker_of_flags(options: ScoreOptions) -> RewardWorker:
    _, rewards, group_size = options.required()
    return RewardWorker(
        catalog=options.catalog,
        reward=rewards,
        group_size=group_size,
        weights=options.weights(),
        namespace=options.namespace,
        estimator=options.estimator,
        on_unavailable=options.on_unavailable,
        max_dropped_fraction=options.max_dropped_fraction,
        groups_in_flight=options.groups_in_flight,
        evaluator=_evaluator_of_flags(options),
    )


def _evaluator_of_flags(options: ScoreOptions) -> GroupEvaluator | None:
    if options.backend == "in_process":
        if options.workers is not None:
            raise RewardConfigError("--workers is for the processes backend: give --backend processes with it")
        return None
    from posttrain.execution import ProcessEvaluator

    return ProcessEvaluator() if options.workers is None else ProcessEvaluator(workers=options.workers)


def _score(worker: RewardWorker, source: RolloutSource, size: int, options: ScoreOptions) -> None:
    started = perf_counter()
    with progress_bar(size) as watch:
        scores = score_file(
            worker.stage,
            source,
            out=options.out,
            metrics=options.metrics,
            resume=options.resume,
            restart=options.restart,
            watch=watch,
        )
    console = plain_console()
    console.print(report_table(scores.report))
    if scores.resumed_groups:
        console.print(f"{scores.resumed_groups:,} groups were scored by the interrupted run")
    where = f", written to {', '.join(map(str, scores.written))}" if scores.written else ""
    console.print(f"done in {perf_counter() - started:.1f} s{where}", soft_wrap=True)


def _explain(worker: RewardWorker, source: RolloutSource, trajectory_id: str) -> None:
    explanation = explain(worker.stage, source, trajectory_id)
    console = plain_console()
    for table in explanation_tables(explanation, worker.stage.estimator):
        console.print(table)


def _replay(file: Path, catalog: str | None) -> None:
    record = load_failed_request(file)
    console = plain_console()
    console.print(f"recorded: {record.error}", soft_wrap=True)
    scores = replay(record, catalog=catalog)
    console.print(scores_table(scores))
    console.print(f"{record.provider} now scores group {record.group_id}")


def _failed_request_file(out: Path | None) -> Path:
    return Path("failed-request.json") if out is None else out.with_name(f"{out.name}.failed-request.json")
