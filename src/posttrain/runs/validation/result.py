# SPDX-License-Identifier: Apache-2.0
"""What a complete validation comes to, and its file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, final

import msgspec

from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.rewards import RewardReport
from posttrain.runs.offline.record import json_bytes
from posttrain.runs.sinks.files import refusals
from posttrain.runs.validation.record import ValidationRecord

__all__ = ["ValidationResult", "read_result", "result_bytes"]

_FORMAT: Final = 1


@final
class ValidationResult(msgspec.Struct, frozen=True, kw_only=True):
    """Report and metrics of a complete validation."""

    step: int
    report: RewardReport
    """Exact, so that it merges with others. Its timings are those of this process; a saved one has none."""
    metrics: dict[str, float]
    """Under ``val/``: those of the report, best of n, and pass@k of binary terms."""
    resumed_groups: int = 0
    """Groups that were scored before this process went on, all of them where the validation was complete."""


@final
class _Saved(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file."""

    format: int = _FORMAT
    step: int
    stage_sha256: str
    """Of the record's stage identity."""
    rollouts_sha256: str
    """Of the record's rollouts."""
    metrics: dict[str, float]
    report: RewardReport


def result_bytes(record: ValidationRecord, report: RewardReport, metrics: Mapping[str, float]) -> bytes:
    """The file's content. Timings are left out: they would differ each time that the same is validated.

    Raises:
        RewardContractError: a number is not finite, which JSON can't keep.
    """
    saved = _Saved(
        step=record.step,
        stage_sha256=record.stage_sha256,
        rollouts_sha256=record.rollouts.sha256,
        metrics=dict(metrics),
        report=_without_timings(report),
    )
    content = json_bytes(saved)
    try:
        is_kept = msgspec.json.decode(content, type=_Saved) == saved
    except msgspec.ValidationError as error:
        raise RewardContractError(f"the result can't be saved, a number in it is not finite: {error}") from error
    if not is_kept:
        raise RewardContractError("the result can't be saved: it holds what comes back from JSON as another value")
    return content


def read_result(path: Path, record: ValidationRecord) -> ValidationResult:
    """Read what `result_bytes` made.

    Raises:
        RewardConfigError: it can't be read, is of another format or damaged, or is not of this record.
    """
    try:
        with refusals(path, "read"):
            saved = msgspec.json.decode(path.read_bytes(), type=_Saved)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RewardConfigError(f"{path} is no result of a validation: {error}") from error
    of_record = (_FORMAT, record.step, record.stage_sha256, record.rollouts.sha256)
    if (saved.format, saved.step, saved.stage_sha256, saved.rollouts_sha256) != of_record:
        raise RewardConfigError(f"{path} is the result of another validation than the one that is recorded beside it")
    return ValidationResult(
        step=saved.step, report=saved.report, metrics=saved.metrics, resumed_groups=saved.report.group_count
    )


def _without_timings(report: RewardReport) -> RewardReport:
    plain = msgspec.structs.replace
    providers = {
        name: plain(each, seconds=0.0, slowest_seconds=0.0, slowest_group=None)
        for name, each in report.providers.items()
    }
    return plain(report, providers=providers)
