# SPDX-License-Identifier: Apache-2.0
"""What a validation records of itself before anything is scored, and the check that nothing goes on under another."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal, Self, final

import msgspec

from posttrain import __version__
from posttrain.errors import RewardConfigError, describe, listing
from posttrain.rewards import ProviderIdentity, StageIdentity
from posttrain.runs.offline.record import json_bytes
from posttrain.runs.records import VALIDATION_FOLDER, step_name
from posttrain.runs.sinks.files import refusals
from posttrain.runs.sinks.sink import check_step
from posttrain.runs.validation.layout import RECORD_FILE, ValidationFiles
from posttrain.runs.validation.rollouts import SavedRollouts

__all__ = ["ValidationRecord", "pending_validations", "read_record", "validation_folder"]

_FORMAT: Final = 1
_IDENTITY: Final = ("provider", "revision", "sha256")


@final
class ValidationRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One validation: what it validates, and what alone may score it. Made by `ValidationRecord.of`."""

    format: int = _FORMAT
    posttrain: str
    """Version of Posttrain."""
    step: int
    """Training step that the rollouts are of; 0 where there is none."""
    n_generation: int
    """Candidates per group."""
    namespace: Literal["val"] = "val"
    """Of the metrics."""
    providers: tuple[ProviderIdentity, ...]
    """Catalog path, name, revision and identity SHA-256 of each provider."""
    stage_sha256: str
    stage: StageIdentity
    """Everything that decides a score."""
    rollouts: SavedRollouts

    @classmethod
    def of(cls, stage: StageIdentity, step: int, rollouts: SavedRollouts) -> ValidationRecord:
        """The record of a validation that is scored by this stage."""
        return cls(
            posttrain=__version__,
            step=step,
            n_generation=stage.group_size,
            providers=stage.providers,
            stage_sha256=stage.sha256,
            stage=stage,
            rollouts=rollouts,
        )

    def encode(self) -> bytes:
        """The file's content: JSON for people too."""
        return json_bytes(self)

    def to_json(self) -> dict[str, Any]:
        """The same as plain JSON."""
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return plain

    def differences(self, recorded: Self) -> list[str]:
        """One line for each field in which `recorded` is another, both values with it."""
        lines = [
            f"{name}: recorded {_shown(before)}, now {_shown(now)}"
            for name in ("posttrain", "step", "n_generation")
            if (before := getattr(recorded, name)) != (now := getattr(self, name))
        ]
        lines += self.stage.differences(recorded.stage)
        return lines + self.rollouts.differences(recorded.rollouts)


def read_record(folder: Path) -> ValidationRecord | None:
    """The record of the validation in a folder; None: there is none.

    Raises:
        RewardConfigError: it can't be read, is of another format, names no identity of a provider, or is damaged.
    """
    path = folder / RECORD_FILE
    try:
        with refusals(path, "read"):
            if not path.exists():
                return None
            plain: Any = msgspec.json.decode(path.read_bytes())
    except (msgspec.DecodeError, RecursionError) as error:
        raise RewardConfigError(f"{path} is no record of a validation: {error}") from error
    if not isinstance(plain, dict) or plain.get("format") != _FORMAT:
        version = plain.get("format") if isinstance(plain, dict) else None
        raise RewardConfigError(
            f"{path} has format {describe(version)}, and this version of Posttrain reads format {_FORMAT}"
        )
    if missing := _missing_identity(plain):
        raise RewardConfigError(
            f"{path} does not say what scores its rollouts, so that nobody could tell whether this is the same "
            f"reward:\n{listing(missing)}\nBegin it anew with --restart."
        )
    try:
        record = msgspec.convert(plain, ValidationRecord)
    except msgspec.ValidationError as error:
        raise RewardConfigError(f"{path} is no record of a validation: {error}") from error
    if ValidationRecord.of(record.stage, record.step, record.rollouts) != msgspec.structs.replace(
        record, posttrain=__version__
    ):
        raise RewardConfigError(
            f"{path} is damaged: providers, n_generation and stage_sha256 are not those of the stage in it"
        )
    return record


def _missing_identity(plain: dict[str, Any]) -> list[str]:
    """Where a record leaves open what its scores are made with."""
    stage = plain.get("stage")
    lines = [f"{name} is missing" for name in ("stage", "stage_sha256") if not plain.get(name)]
    for where, holder in (("", plain), ("stage.", stage if isinstance(stage, dict) else {})):
        providers = holder.get("providers")
        if not providers:
            lines.append(f"{where}providers is missing")
        for at, each in enumerate(providers if isinstance(providers, list) else []):
            fields = each if isinstance(each, dict) else {}
            lines += [f"{where}providers[{at}].{name} is missing" for name in _IDENTITY if not fields.get(name)]
            if "catalog" not in fields:
                lines.append(f"{where}providers[{at}].catalog is missing")
    return lines


def _shown(value: object) -> str:
    return msgspec.json.encode(value).decode()


def validation_folder(run: str | Path, step: int) -> Path:
    """Where a run keeps the validation of a step.

    Args:
        run: the run's folder.
        step: the training step.

    Raises:
        RewardContractError: the step is none.
    """
    return Path(run) / VALIDATION_FOLDER / step_name(check_step(step))


def pending_validations(run: str | Path) -> list[Path]:
    """Folders of the validations of a run that have begun and are not complete, in the order of their steps.

    Args:
        run: the run's folder.
    """
    folders = sorted((Path(run) / VALIDATION_FOLDER).glob("step-*"))
    return [each for each in folders if (each / RECORD_FILE).exists() and not ValidationFiles(each).is_complete]
