# SPDX-License-Identifier: Apache-2.0
"""The answer to an enqueue: the ticket under which the score will be found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, final

from posttrain.media.wire.strict import NotJsonError, read_json

__all__ = ["Enqueued", "read_enqueued"]

_LONGEST: Final = 512


@final
@dataclass(frozen=True, slots=True)
class Enqueued:
    """What the service gave for the sample."""

    uuid: str
    """Names the work; sent with each pull exactly as it came."""
    replica_id: str | None
    """The replica that holds it; sent as a header with each pull. None: the service named none."""


def read_enqueued(body: bytes) -> Enqueued | str:
    """The ticket in the body of a 200; otherwise what is wrong with it, in words.

    A uuid is any text of 1 to 512 characters. It is compared and sent as text: the service's own form is not ours to
    check. A replica id goes into a header, so it must be printable ASCII without spaces.
    """
    try:
        value = read_json(body)
    except NotJsonError as error:
        return f"it is no JSON ({error})"
    if not isinstance(value, dict):
        return "it is no JSON object"
    uuid: Any = value.get("uuid")
    replica: Any = value.get("replica_id")
    replica = None if replica == "" else replica
    return _uuid_fault(uuid) or _replica_fault(replica) or Enqueued(uuid, replica)


def _uuid_fault(uuid: Any) -> str:
    if not isinstance(uuid, str) or not uuid.strip():
        return "its uuid is missing, empty or no text"
    # A lone surrogate is what JSON can spell and UTF-8 can't carry.
    if len(uuid) > _LONGEST or any("\ud800" <= each <= "\udfff" for each in uuid):
        return f"its uuid has more than {_LONGEST} characters, or some that can't be sent back"
    return ""


def _replica_fault(replica: Any) -> str:
    if replica is None:
        return ""
    if not isinstance(replica, str) or len(replica) > _LONGEST or not all("!" <= each <= "~" for each in replica):
        return "its replica_id can't be a header: expected printable ASCII without spaces"
    return ""
