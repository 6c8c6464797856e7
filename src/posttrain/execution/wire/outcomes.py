# SPDX-License-Identifier: Apache-2.0
"""What came of groups, as bytes: scores, or the error that names who and where.

What the driver has already is not sent back: the ids of the candidates, and the request that failed. They are put on
again where the answer is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import CancelledError
from typing import Final, TypeAlias, final

import msgspec

from posttrain.errors import (
    RewardConfigError,
    RewardContractError,
    RewardError,
    RewardUnavailableError,
    text_of,
)
from posttrain.execution.wire.packing import Packing, WireError
from posttrain.rewards.metrics.contribution import MetricContribution
from posttrain.rewards.stage.bind import BoundGroup
from posttrain.rewards.stage.boundary import GroupScores

__all__ = ["Outcome", "decode_error", "decode_outcomes", "encode_error", "encode_outcomes"]

Outcome: TypeAlias = tuple[GroupScores, ...] | RewardError | CancelledError | None
"""Of one group: the scores of each selected provider; an error; or None: it was skipped, no provider saw it."""

_KINDS: Final[dict[str, type[RewardError]]] = {
    kind.__name__: kind for kind in (RewardContractError, RewardUnavailableError, RewardConfigError, RewardError)
}


@final
class _Scores(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    terms: dict[str, tuple[float, ...]]
    diagnostics: dict[str, MetricContribution]
    seconds: float


@final
class _Failure(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    kind: str
    message: str
    provider: str | None
    group_id: str | None
    trajectory_id: str | None
    cause_type: str | None
    cause_text: str | None
    notes: list[str]
    request: int | None
    """Which of the group's requests failed."""


@final
class _Answer(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Exactly one of the two; neither: the group was skipped."""

    scores: list[_Scores] | None
    failure: _Failure | None


_ANSWERS: Final = Packing[list[_Answer]](list[_Answer], "a list of outcomes")
_FAILURE: Final = Packing[_Failure](_Failure, "an error")


def encode_outcomes(groups: Sequence[BoundGroup], outcomes: Sequence[Outcome]) -> bytearray:
    """The outcomes of these groups, in their order, as bytes."""
    return _ANSWERS.pack([_answer(group, outcome) for group, outcome in zip(groups, outcomes, strict=True)])


def decode_outcomes(
    data: bytes | bytearray | memoryview, groups: Sequence[BoundGroup], names: Sequence[str]
) -> list[Outcome]:
    """The outcomes again, with what the driver knows put on.

    Args:
        data: what `encode_outcomes` gave.
        groups: the same groups, as the driver holds them: an error's `request` is the driver's own.
        names: of the selected providers, in their order.

    Raises:
        WireError: the bytes hold no outcomes of these groups.
    """
    answers = _ANSWERS.unpack(data)
    if len(answers) != len(groups):
        raise WireError(f"a list of outcomes can't be read: it has {len(answers)} for {len(groups)} groups")
    return [_outcome(answer, group, names) for answer, group in zip(answers, groups, strict=True)]


def encode_error(error: RewardError) -> bytearray:
    """An error that belongs to no group, for example of a provider that failed to open."""
    return _FAILURE.pack(_failed(error, None))


def decode_error(data: bytes | bytearray | memoryview) -> RewardError:
    """That error again.

    Raises:
        WireError: the bytes hold none.
    """
    error = _error(_FAILURE.unpack(data))
    if isinstance(error, CancelledError):
        raise WireError("an error can't be read: it is of no kind of the tree")
    return error


def _answer(group: BoundGroup, outcome: Outcome) -> _Answer:
    if outcome is None:
        return _Answer(None, None)
    if isinstance(outcome, BaseException):
        request = getattr(outcome, "request", None)
        at = next((index for index, each in enumerate(group.requests) if each is request), None)
        return _Answer(None, _failed(outcome, at))
    return _Answer([_Scores(dict(it.terms), dict(it.diagnostics), it.seconds) for it in outcome], None)


def _outcome(answer: _Answer, group: BoundGroup, names: Sequence[str]) -> Outcome:
    if answer.failure is not None:
        error, at = _error(answer.failure), answer.failure.request
        if at is not None and isinstance(error, RewardError):
            if not 0 <= at < len(group.requests):
                raise WireError(f"an error can't be read: it is about request {at} of {len(group.requests)}")
            error.request = group.requests[at]
        return error
    if answer.scores is None:
        return None
    if len(answer.scores) != len(names):
        raise WireError(f"group {group.group_id!r}: scores of {len(answer.scores)} providers, expected {len(names)}")
    size = len(group.trajectory_ids)
    for each in answer.scores:
        if any(len(column) != size for column in each.terms.values()):
            raise WireError(f"group {group.group_id!r}: a term has not one value for each of {size} candidates")
    return tuple(
        [
            GroupScores(name, group.group_id, group.trajectory_ids, it.terms, it.diagnostics, it.seconds)
            for name, it in zip(names, answer.scores, strict=True)
        ]
    )


def _failed(error: RewardError | CancelledError, request: int | None) -> _Failure:
    if not isinstance(error, RewardError):
        return _Failure("CancelledError", text_of(error), None, None, None, None, None, [], request)
    kind = next(name for name, each in _KINDS.items() if isinstance(error, each))
    # A report counts dropped groups by the type of an author's own subclass, which does not travel.
    subclass = None if type(error) in _KINDS.values() else type(error).__name__
    first = error.args[0] if error.args else ""
    return _Failure(
        kind,
        first if type(first) is str else text_of(error),
        error.provider,
        error.group_id,
        error.trajectory_id,
        error.cause_type or subclass,
        error.cause_text,
        [str(note) for note in getattr(error, "__notes__", ())],
        request,
    )


def _error(failure: _Failure) -> RewardError | CancelledError:
    if failure.kind == "CancelledError":
        return CancelledError(*[failure.message] if failure.message else [])
    kind = _KINDS.get(failure.kind)
    if kind is None:
        raise WireError(f"an error can't be read: {failure.kind!r} is no kind of the tree")
    error = kind(
        failure.message, provider=failure.provider, group_id=failure.group_id, trajectory_id=failure.trajectory_id
    )
    error.cause_type, error.cause_text = failure.cause_type, failure.cause_text
    for note in failure.notes:
        error.add_note(note)
    return error
