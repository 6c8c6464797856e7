# SPDX-License-Identifier: Apache-2.0
"""What the answer to a pull means: still at work, a score, a failure that may pass; everything else is final."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias, final

from posttrain.errors import RewardContractError
from posttrain.media.wire.quoting import Quoter
from posttrain.media.wire.scores import one_score
from posttrain.media.wire.statuses import BUSY, refused
from posttrain.media.wire.strict import NotJsonError, read_json

__all__ = ["Pending", "Pulled", "Scored", "Unanswered", "read_pulled"]


@final
@dataclass(frozen=True, slots=True)
class Pending:
    """The service says that our work is not done."""

    said: str
    """By which of the two shapes."""


@final
@dataclass(frozen=True, slots=True)
class Scored:
    """The service says that our work is done."""

    value: float
    """The raw score, finite."""


@final
@dataclass(frozen=True, slots=True)
class Unanswered:
    """A failure that may pass: asked again until the deadline."""

    said: str
    """What came, for the error at the deadline."""


Pulled: TypeAlias = Pending | Scored | Unanswered


def read_pulled(
    status: int, body: bytes, *, uuid: str, score_key: str, what: str, quoted: Quoter, location: str = ""
) -> Pulled:
    """Classify one complete answer.

    Args:
        status: HTTP status.
        body: all of the body.
        uuid: the one that our enqueue returned.
        score_key: see `one_score`.
        what: which call it answered, for errors.
        quoted: quotes what the service said.
        location: target of a redirect.

    Raises:
        RewardContractError: an answer that is final and holds no score.
        RewardConfigError: an answer that only a person can mend.
    """
    if status == 200:
        return Scored(_score(body, uuid, score_key, what, quoted))
    if status == 202:
        return _accepted(body, uuid, what, quoted)
    if status == 400 and _is_legacy_pending(body, uuid):
        return Pending("400 Not found scores")
    if status >= 500 or status in BUSY:
        return Unanswered(f"{status} {quoted(body)}")
    raise refused(status, what, quoted(body), quoted(location) if location else "")


def _score(body: bytes, uuid: str, score_key: str, what: str, quoted: Quoter) -> float:
    value = _object(body, what, 200, quoted)
    if value.get("error") is not None:
        raise RewardContractError(f"{what}: the service reports that scoring failed: {quoted(value['error'])}")
    if "uuid" in value and value["uuid"] != uuid:
        raise RewardContractError(
            f"{what}: the answer is about uuid {quoted(value['uuid'])}, expected {quoted(uuid)}: it is not our score"
        )
    if value.get("scores") is None:
        raise RewardContractError(f"{what}: the answer 200 holds no scores: {quoted(body)}")
    try:
        return one_score(value["scores"], score_key, quoted)
    except RewardContractError as error:
        raise RewardContractError(f"{what}: {error}") from None


def _accepted(body: bytes, uuid: str, what: str, quoted: Quoter) -> Pending:
    value = _object(body, what, 202, quoted)
    if value.get("uuid") != uuid or value.get("status") != "pending":
        raise RewardContractError(
            f'{what}: a 202 must carry our uuid {quoted(uuid)} and status "pending", got {quoted(body)}: '
            "it is not known to be about our work, so it is not waited for"
        )
    return Pending("202 pending")


def _is_legacy_pending(body: bytes, uuid: str) -> bool:
    try:
        value = read_json(body)
    except NotJsonError:
        return False
    return isinstance(value, dict) and value.get("message") == f"Not found scores for {uuid}"


def _object(body: bytes, what: str, status: int, quoted: Quoter) -> dict[str, Any]:
    try:
        value = read_json(body)
    except NotJsonError as error:
        raise RewardContractError(f"{what}: the answer {status} is no JSON ({error}): {quoted(body)}") from None
    if not isinstance(value, dict):
        raise RewardContractError(f"{what}: expected a JSON object with the answer {status}, got {quoted(body)}")
    return value
