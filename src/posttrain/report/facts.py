# SPDX-License-Identifier: Apache-2.0
"""What is recorded beside scores: what made them, and the metrics over steps."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias, final

import msgspec

from posttrain.errors import RewardConfigError, RewardContractError, describe
from posttrain.jsonl.faults import Faults
from posttrain.jsonl.lines import RowFault, read_rows
from posttrain.jsonl.streams import RowStream
from posttrain.runs.records import METRICS_FILE, PROVENANCE_FILE, STATE_FILE

__all__ = ["Facts", "Series", "Slowest", "facts_of_file", "facts_of_run"]

Series: TypeAlias = dict[int, float]
"""Step to value, in the order of the steps."""

_NOT_METRICS: Final = frozenset({"step", "time"})
_decode_metrics = msgspec.json.Decoder(dict[str, Any]).decode


@final
class Slowest(msgspec.Struct, frozen=True):
    """One provider's time, as the last checkpoint has it."""

    provider: str
    group_id: str
    slowest_seconds: float
    """Wall time of that group."""
    seconds: float
    """Wall time over all groups."""


@final
class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of scores beyond their rows; everything may be missing."""

    stage: dict[str, Any] = {}
    """The recorded stage identity: providers, terms, weights, estimator and so on."""
    version: str | None = None
    """Version of Posttrain that scored."""
    namespace: str | None = None
    rollouts: dict[str, Any] = {}
    """Name, size and SHA-256 of the rollouts that a scored file was made from."""
    columns: dict[str, str] = {}
    """Field of `RolloutColumns` to the column that was read."""
    grouping: str | None = None
    """The grouping as `Grouping.describe` gives it."""
    dump: dict[str, Any] = {}
    """Whose dump the rollouts were, and how its texts were read; empty for rollouts of ours."""
    metrics: dict[str, Series] = {}
    """Metric to its values over steps."""
    slowest: tuple[Slowest, ...] = ()
    notes: tuple[str, ...] = ()
    """What a reader of the report should know about its inputs."""

    @property
    def weights(self) -> dict[str, float] | None:
        """Recorded weight of every term; None: not recorded."""
        weights = self.stage.get("weights")
        if not isinstance(weights, dict):
            return None
        return {term: float(weight) for term, weight in weights.items() if isinstance(weight, (int, float))}


def facts_of_run(path: Path) -> Facts:
    """What a run's directory records.

    Raises:
        RewardConfigError: a file can't be read.
        RewardContractError: the metrics are no metrics.
    """
    provenance = _json_object(path / PROVENANCE_FILE)
    metrics, notes = _metrics(path / METRICS_FILE)
    state = _json_object(path / STATE_FILE)
    return Facts(
        stage=_stage_in(provenance) or _stage_in(state),
        version=_text(provenance, "posttrain") or _text(provenance, "version"),
        metrics=metrics,
        slowest=tuple(sorted(_slowest(state.get("report")), key=lambda each: -each.slowest_seconds)),
        notes=notes,
    )


def facts_of_file(path: Path) -> Facts:
    """What lies beside a scored file: ``NAME.identity.json`` and ``metrics.json``.

    Whether the metrics are those of this file is for the caller to find out: several scored files may share a folder.

    Raises:
        RewardConfigError: a file can't be read.
    """
    identity = _json_object(path.with_name(f"{_stem(path)}.identity.json"))
    rollouts, columns = identity.get("rollouts"), identity.get("columns")
    return Facts(
        stage=_stage_in(identity),
        version=_text(identity, "posttrain"),
        namespace=_text(identity, "namespace"),
        rollouts=rollouts if isinstance(rollouts, dict) else {},
        columns=columns if isinstance(columns, dict) else {},
        grouping=_text(identity, "grouping"),
        dump=dump if isinstance(dump := identity.get("dump"), dict) else {},
        metrics=_points(_json_object(path.with_name("metrics.json")), 0),
    )


def _stem(path: Path) -> str:
    name = path.name
    for suffix in (".gz", ".zst", ".jsonl", ".parquet"):
        name = name.removesuffix(suffix)
    return name


def _json_object(path: Path) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(path.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise RewardConfigError(f"can't read {path}: {error.strerror or error}") from error
    except msgspec.DecodeError as error:
        raise RewardConfigError(f"{path} is damaged: {error}") from error
    if not isinstance(found, dict):
        raise RewardConfigError(f"{path}: expected a JSON object, got {describe(found)}")
    return found


def _stage_in(record: Any) -> dict[str, Any]:
    """The first object that is a stage identity, however deep the record keeps it."""
    waiting = [record]
    for value in waiting:
        if isinstance(value, dict):
            if "weights" in value and "estimator" in value:
                return value
            waiting.extend(value.values())
    return {}


def _text(record: dict[str, Any], key: str) -> str | None:
    value = record.get(key)
    return value if isinstance(value, str) else None


def _slowest(report: Any) -> Iterator[Slowest]:
    if not isinstance(report, dict):
        return
    providers = report.get("providers")
    if not isinstance(providers, dict):
        for inner in report.values():
            yield from _slowest(inner)
        return
    for name, provider in providers.items():
        if isinstance(provider, dict) and provider.get("slowest_group") is not None:
            seconds = [provider.get(key, 0.0) for key in ("slowest_seconds", "seconds")]
            yield Slowest(name, str(provider["slowest_group"]), float(seconds[0]), float(seconds[1]))


def _metrics(path: Path) -> tuple[dict[str, Series], tuple[str, ...]]:
    """Metrics over steps; of a step that was written again after a resume the last counts."""
    if not path.exists():
        return {}, ()
    steps: dict[int, dict[str, Any]] = {}
    faults, notes = Faults(), []
    with RowStream(path) as stream:
        for number, row, _, line in read_rows(stream, _decode_metrics):
            if isinstance(row, RowFault) and not line.endswith(b"\n"):
                notes.append(f"the last line of {path.name} was cut off while it was written, and is left out")
            elif isinstance(row, RowFault):
                faults.add_row(number, row.text)
            elif type(step := row.get("step")) is not int:
                faults.add_row(number, f"step: expected an int, got {describe(step)}")
            else:
                steps.setdefault(step, {}).update(row)
    if faults:
        raise faults.error(path.name)
    series: dict[str, Series] = {}
    for step in sorted(steps):
        for name, points in _points(steps[step], step).items():
            series.setdefault(name, {}).update(points)
    return series, tuple(notes)


def _points(row: dict[str, Any], step: int) -> dict[str, Series]:
    faults = [
        f"{name}: {describe(value)}"
        for name, value in row.items()
        if name not in _NOT_METRICS and not (type(value) in {int, float} and math.isfinite(value))
    ]
    if faults:
        raise RewardContractError(f"metrics are finite numbers, got, in step {step}, {'; '.join(faults)}")
    return {name: {step: float(value)} for name, value in row.items() if name not in _NOT_METRICS}
