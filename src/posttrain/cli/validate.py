# SPDX-License-Identifier: Apache-2.0
"""`posttrain validate`: held-out rollouts, scored by providers of the run's own catalog; pending until complete."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from posttrain.cli.config import CONFIG_HELP, OVERRIDES_HELP
from posttrain.cli.console import plain_console
from posttrain.cli.importing import importable_from_here
from posttrain.cli.options import flag
from posttrain.cli.progress import progress_bar
from posttrain.cli.score_options import ScoreOptions
from posttrain.cli.score_source import source_of
from posttrain.cli.tables import report_table
from posttrain.errors import RewardConfigError, RewardError
from posttrain.runs.records import CONFIG_FILE
from posttrain.runs.sinks.sink import LAST_STEP
from posttrain.runs.validation import HeldOutValidation, PendingValidation, ValidationResult, validation_folder
from posttrain.runs.validation.layout import ValidationFiles
from posttrain.runs.validation.same_catalog import check_same_providers

if TYPE_CHECKING:
    from posttrain.runs.config import RLConfig
    from posttrain.runs.directory import RecordedRun

__all__ = ["ValidateOptions", "validate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateOptions:
    """What the user asked for."""

    overrides: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help=OVERRIDES_HELP)] = None
    config: Annotated[Path | None, flag("--config", f"{CONFIG_HELP} That of --run by default.", metavar="FILE")] = None
    rollouts: Annotated[
        Path | None, flag("--rollouts", "Held-out rollouts, as posttrain score reads them. --resume can do without.")
    ] = None
    group_by: Annotated[
        str | None,
        flag(
            "--group-by",
            "For rollouts without group ids: rows with equal columns, or every N rows, are a group.",
            metavar="COL,...|consecutive:N",
        ),
    ] = None
    out: Annotated[Path | None, flag("--out", "Folder of this validation.")] = None
    run: Annotated[Path | None, flag("--run", "Folder of the run that is validated, in place of --out.")] = None
    step: Annotated[
        int | None, flag("--step", "Training step of the rollouts; --run needs it.", min=0, max=LAST_STEP)
    ] = None
    resume: Annotated[
        bool, flag("--resume", "Go on with a pending validation, under the same identity only; begin where none is.")
    ] = False
    restart: Annotated[bool, flag("--restart", "Throw a validation away that is there.")] = False


def validate(options: ValidateOptions) -> None:
    """Score held-out rollouts by rl.validation.reward, and save the result.

    Example: posttrain validate --config run.toml rl.validation.n_generation=4 --rollouts held_out.jsonl --out val
    """
    importable_from_here()
    _check_modes(options)
    from posttrain.runs.config import load_config
    from posttrain.runs.directory import RecordedRun

    started = perf_counter()
    run = None if options.run is None else RecordedRun(options.run)
    config = load_config(options.config or (run and run.path / CONFIG_FILE), options.overrides or ())
    _check(config)
    with HeldOutValidation(config) as validation:
        if run is not None:
            # What the run is recorded with is what its validations are held to.
            check_same_providers(validation.worker.stage.selection.catalog, run.provenance.providers)
        pending = _pending(options, config, validation)
        with progress_bar(pending.record.rollouts.bytes) as watch:
            result = pending.complete(watch)
        told = [] if run is None else [_added_to_run(run, pending, result)]
    _tell(result, config, [*told, f"done in {perf_counter() - started:.1f} s, written to {pending.folder}"])


def _check(config: RLConfig) -> None:
    """Preflight, the first thing that a run does; what it warns of is told."""
    from posttrain.runs.checks import preflight

    report = preflight(config)
    report.raise_if_failed()
    console = plain_console()
    for check in report.checks:
        for line in check.lines if check.verdict == "warning" else ():
            console.print(f"warning: {check.name}: {line}", soft_wrap=True)


def _check_modes(options: ValidateOptions) -> None:
    faults = []
    if options.out is not None and options.run is not None:
        faults.append("--out names a folder and --run the run that has one: give one of them")
    if options.run is not None and options.step is None:
        faults.append("--run needs --step, under which the run keeps the validation")
    if options.resume and options.restart:
        faults.append("--resume goes on with a validation and --restart throws it away: give one of them")
    if options.out is None and options.run is None:
        faults.append("--out or --run missing: a validation is kept; posttrain score --namespace val only looks")
    if options.rollouts is None and not options.resume:
        faults.append("--rollouts missing; for example: posttrain validate --config run.toml --rollouts held_out.jsonl")
    if options.rollouts is None and options.group_by is not None:
        faults.append("--group-by says how to read the rollouts: give --rollouts too")
    if faults:
        raise RewardConfigError("\n".join(faults))


def _folder(options: ValidateOptions) -> Path:
    if options.run is None:
        return options.out or Path()
    return validation_folder(options.run, options.step or 0)


def _pending(options: ValidateOptions, config: RLConfig, validation: HeldOutValidation) -> PendingValidation:
    folder, rollouts = _folder(options), None
    if options.rollouts is not None:
        specs = validation.worker.stage.selection.specs
        needs = sorted({need for spec in specs for need in spec.needs})
        read = ScoreOptions(group_by=options.group_by)
        rollouts = source_of(read, options.rollouts, config.rollout_columns(), needs)
    if rollouts is None or (options.resume and ValidationFiles(folder).record.exists()):
        return validation.resume(folder, step=options.step, rollouts=rollouts)
    return validation.begin(rollouts, options.step or 0, folder, overwrite=options.restart)


def _added_to_run(run: RecordedRun, pending: PendingValidation, result: ValidationResult) -> str:
    """Add the metrics to those of the run, once; what to tell of it."""
    from posttrain.runs.directory import RunDirectory

    step = result.step
    if run.metrics().get(step, {}).keys() & result.metrics.keys():
        return f"the run has metrics of a validation at step {step} already, and they stay"
    try:
        with RunDirectory.open(run.path) as directory:
            directory.metrics.write(step, result.metrics)
    except RewardError as error:
        error.add_note(f"The validation is complete in {pending.folder}; --resume adds its metrics to the run")
        raise
    return f"added to the run's metrics at step {step}"


def _tell(result: ValidationResult, config: RLConfig, told: list[str]) -> None:
    table = report_table(result.report)
    for name, value in _shown(result.metrics, config.validation.n_generation).items():
        table.add_row(name, f"{value:.4f}")
    console = plain_console()
    console.print(table)
    if result.resumed_groups:
        console.print(f"{result.resumed_groups:,} groups were scored before")
    for line in told:
        console.print(line, soft_wrap=True)


def _shown(metrics: Mapping[str, float], n: int) -> dict[str, float]:
    """Best of n and pass@k, by what a person calls them."""
    found = {}
    for key, value in metrics.items():
        *_, term, name = key.split("/")
        if name == f"best_of_{n}":
            found[f"best of {n}, {term}"] = value
        elif name.startswith("pass_at_"):
            found[f"pass@{name.removeprefix('pass_at_')}, {term}"] = value
    return found
