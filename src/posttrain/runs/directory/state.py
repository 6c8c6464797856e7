# SPDX-License-Identifier: Apache-2.0
"""The reward state of a run's last checkpoint, and the check that nothing goes on under another reward."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, final

import msgspec

from posttrain.errors import RewardConfigError, RewardContractError, listing
from posttrain.rewards import RewardReport, StageIdentity

__all__ = ["RewardState", "check_identity", "read_state"]

_FORMAT: Final = 1


@final
class RewardState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a trainer's checkpoint is paired with."""

    format: int = _FORMAT
    step: int
    """The checkpoint's step."""
    stage_sha256: str
    stage: StageIdentity
    """What the steps up to this one were scored with."""
    report: RewardReport
    """The report that was saved with it, exact."""

    def encode(self) -> bytes:
        """The file's content.

        Raises:
            RewardContractError: the report holds what is no finite number, which JSON can't keep.
        """
        text = msgspec.json.encode(self)
        try:
            is_kept = msgspec.json.decode(text, type=RewardState) == self
        except msgspec.ValidationError as error:
            raise RewardContractError(f"the report can't be saved, a number in it is not finite: {error}") from error
        if not is_kept:
            raise RewardContractError("the report can't be saved: it holds what comes back from JSON as another value")
        return msgspec.json.format(text, indent=1) + b"\n"


def read_state(path: Path) -> RewardState | None:
    """Read what `RewardState.encode` wrote; None: there is no such file.

    Raises:
        RewardConfigError: the file can't be read, is damaged, is of another format, or records no stage identity.
    """
    try:
        record: Any = msgspec.json.decode(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RewardConfigError(f"can't read {path}: {error.strerror or error}") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise RewardConfigError(f"{path} is no reward state: {error}") from error
    if not isinstance(record, dict) or record.get("format") != _FORMAT:
        version = record.get("format") if isinstance(record, dict) else None
        raise RewardConfigError(f"{path} has format {version!r}, and this version of Posttrain reads {_FORMAT}")
    if record.get("stage") is None or record.get("stage_sha256") is None:
        raise RewardConfigError(
            f"{path} records no stage identity, so that nobody knows what its steps were scored with: begin another run"
        )
    try:
        state = msgspec.convert(record, RewardState)
    except msgspec.ValidationError as error:
        raise RewardConfigError(f"{path} is no reward state: {error}") from error
    if state.stage.sha256 != state.stage_sha256:
        raise RewardConfigError(f"{path} is damaged: the stage identity in it is not that of its SHA-256")
    return state


def check_identity(expected: StageIdentity, recorded: StageIdentity, accept_identity: str | None, path: Path) -> bool:
    """Whether `recorded` is another identity than `expected`, and accepted as the one to go on from.

    Args:
        expected: the identity of the stage as it is set up now.
        recorded: the identity in `path`.
        accept_identity: SHA-256 of the identity that the user agrees to leave behind; None: of none.
        path: the record.

    Raises:
        RewardConfigError: the two differ, and `accept_identity` does not name the recorded one; every field that
            differs is named with both values.
    """
    lines = expected.differences(recorded)
    if not lines:
        return False
    if accept_identity == recorded.sha256:
        return True
    named = "" if accept_identity is None else f" (it names {accept_identity!r})"
    raise RewardConfigError(
        f"{path} was recorded under another reward:\n{listing(lines)}\nRun with the recorded settings or begin another "
        f"run. To go on all the same, set rl.accept_identity to what is recorded, {recorded.sha256!r}{named}: it will "
        "be kept as the run's lineage."
    )
