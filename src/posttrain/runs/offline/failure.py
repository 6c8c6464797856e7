# SPDX-License-Identifier: Apache-2.0
"""A request that failed is kept as a file, so that it can be looked at and run again after the provider was mended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, final

import msgspec

from posttrain.errors import RewardConfigError, RewardError
from posttrain.frozen import freeze
from posttrain.rewards.catalog.load import load_catalog
from posttrain.rewards.contract.lifecycle import opened
from posttrain.rewards.contract.request import RewardCandidate, RewardContext, RewardGroupRequest
from posttrain.rewards.stage.boundary import GroupScores, evaluate_group
from posttrain.rewards.stage.prepare import Selection, construct
from posttrain.rollouts.atomic import write_atomically

__all__ = ["FailedRequest", "keeping_failed_request", "load_failed_request", "replay"]

_FORMAT: Final = 1
_PRIVATE: Final = 0o600


@final
class FailedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A provider, the request that it failed on, and what it said. Private to the user: it holds rollouts."""

    format: int = _FORMAT
    catalog: str | None
    """Path of the catalog, as it was given; None: the built-ins."""
    provider: str
    revision: str
    sha256: str
    """SHA-256 of the provider's semantic identity."""
    error: str
    group_id: str
    candidates: tuple[RewardCandidate, ...]
    prompt: Any = None
    reference: Any = None

    def request(self) -> RewardGroupRequest:
        """The request as the provider saw it."""
        context = RewardContext(freeze(self.prompt, "prompt"), freeze(self.reference, "reference"))
        return RewardGroupRequest(self.group_id, self.candidates, context)


@contextmanager
def keeping_failed_request(selection: Selection, catalog: str | None, file: Path) -> Iterator[None]:
    """Write the request of a failure to `file`, readable by its owner alone, and name the file in the error."""
    try:
        yield
    except RewardError as error:
        if error.request is not None and error.provider in selection.names:
            identity = selection.catalog.identity(error.provider)
            request: RewardGroupRequest = error.request
            record = FailedRequest(
                catalog=catalog,
                provider=identity.provider,
                revision=identity.revision,
                sha256=identity.sha256,
                error=str(error),
                group_id=request.group_id,
                candidates=request.candidates,
                prompt=request.context.prompt,
                reference=request.context.reference,
            )
            error.add_note(_kept(record, file))
        raise


def _kept(record: FailedRequest, file: Path) -> str:
    """Write the record; what to tell of it. The failure itself matters more than whether its request can be kept."""
    try:
        write_atomically(file, msgspec.json.encode(record), mode=_PRIVATE)
    except RewardConfigError as error:
        return f"The request could not be kept: {error}"
    return f"The request is kept in {file}: mend the provider, then posttrain score --replay {file}"


def load_failed_request(file: Path) -> FailedRequest:
    """Read what `keeping_failed_request` wrote.

    Raises:
        RewardConfigError: the file can't be read, or is no such record.
    """
    try:
        record = msgspec.json.decode(file.read_bytes(), type=FailedRequest)
    except OSError as error:
        raise RewardConfigError(f"{file} can't be read: {error.strerror or error}") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise RewardConfigError(f"{file} is no kept request: {error}") from error
    if record.format != _FORMAT:
        raise RewardConfigError(f"{file} has format {record.format}; this version reads {_FORMAT}")
    if not record.candidates:
        raise RewardConfigError(f"{file} is no kept request: it has no candidates")
    return record


def replay(record: FailedRequest, *, catalog: str | None = None) -> GroupScores:
    """Give the request to the provider again, as it is now; a managed one is opened and closed around it.

    Args:
        record: the kept request.
        catalog: another catalog path than the recorded one.

    Raises:
        RewardError: whatever the provider says now.
    """
    found = load_catalog(catalog or record.catalog)
    prepared = construct(record.provider, found.spec(record.provider))
    with opened({prepared.name: prepared.provider}):
        return evaluate_group(prepared, record.request())
