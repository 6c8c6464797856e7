# SPDX-License-Identifier: Apache-2.0
"""The one enqueue of a sample. It is never repeated: the service has no idempotency key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from posttrain.errors import RewardContractError, RewardError, RewardUnavailableError
from posttrain.media.client.call import Call
from posttrain.media.sample import SpooledSample
from posttrain.media.transport import Answer, FileBody, NoAnswer, Reply
from posttrain.media.wire import Enqueued, read_enqueued
from posttrain.media.wire.statuses import BUSY, refused

__all__ = ["enqueue"]

_CUT: Final = "(the answer broke off)"


def enqueue(call: Call, sample: SpooledSample, orphaned: Callable[[], None]) -> Enqueued:
    """Send the sample.

    Args:
        call: the service, the credential and the deadline.
        sample: what to send.
        orphaned: called when the service may be at work on the sample and nobody can collect the score.

    Raises:
        RewardUnavailableError: nothing was sent (no connection, no time left), or the service is too busy.
        RewardContractError: the service refused the sample, or its answer does not tell whether it took it.
        RewardConfigError: an answer that only a person can mend.
    """
    config = call.config
    what = f"enqueue at {config.enqueue_url}"
    if call.left() <= 0:
        raise RewardUnavailableError(f"{what}: the evaluation deadline was over before it; nothing was sent")
    body = FileBody(sample.fd, sample.nbytes)
    try:
        reply = call.post(config.enqueue_url, body, "application/octet-stream", config.enqueue_timeout_s, {})
    except RewardError:
        # The transport's word that nothing was sent.
        raise
    except BaseException:
        orphaned()
        raise
    if isinstance(reply, NoAnswer) and not reply.sent:
        raise RewardUnavailableError(f"{what}: nothing was sent, so nothing is left behind: {call.quoted(reply.why)}")
    outcome = _read(reply, call, what)
    if isinstance(outcome, Enqueued):
        return outcome
    if isinstance(outcome, RewardError):
        raise outcome
    orphaned()
    raise RewardContractError(
        f"ambiguous enqueue, remote work may be orphaned: {what}: {outcome}. It is not sent again, since the service "
        "would score it twice; check the service before the batch is repeated"
    )


def _read(reply: Reply, call: Call, what: str) -> Enqueued | RewardError | str:
    """The ticket, an unambiguous refusal, or why neither is known."""
    if isinstance(reply, NoAnswer):
        status, said, location = reply.status, _CUT, ""
        if status is None or status < 300:
            return f"no usable answer came: {call.quoted(reply.why)}"
    else:
        status, said = reply.status, call.quoted(reply.body)
        location = call.quoted(reply.location) if reply.location else ""
    if status in BUSY:
        return RewardUnavailableError(f"{what} was answered {status} {said}: the service takes no work at present")
    if status >= 500:
        return f"it was answered {status} {said}"
    if status >= 300:
        return refused(status, what, said, location)
    if status == 200 and isinstance(reply, Answer):
        found = read_enqueued(reply.body)
        return found if isinstance(found, Enqueued) else f"the answer 200 can't be used: {found}: {said}"
    return f"it was answered {status}, expected 200: {said}"
