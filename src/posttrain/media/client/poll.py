# SPDX-License-Identifier: Apache-2.0
"""Pulls until the score is there: the one call that is repeated."""

from __future__ import annotations

from typing import final

from posttrain.errors import RewardContractError, RewardUnavailableError
from posttrain.media.client.call import Call
from posttrain.media.transport import NoAnswer
from posttrain.media.wire import (
    REPLICA_HEADER,
    Enqueued,
    Pulled,
    Scored,
    Unanswered,
    pull_form,
    read_pulled,
)

__all__ = ["Poll"]


@final
class Poll:
    """The wait for one score.

    Args:
        call: the service, the credential and the deadline.
        ticket: what the enqueue gave; its uuid, and its replica where it named one, go out with each pull.
    """

    def __init__(self, call: Call, ticket: Enqueued) -> None:
        self._call = call
        self._form = pull_form(ticket.uuid, call.config.reward)
        self._headers = {} if ticket.replica_id is None else {REPLICA_HEADER: ticket.replica_id}
        self._uuid = ticket.uuid
        self._what = f"pull of uuid {call.quoted(ticket.uuid)} at {call.config.pull_url}"
        self.polls = 0
        """Pulls that were made."""
        self.retries = 0
        """How many of them failed in a way that may pass."""
        self.settled = False
        """Whether the service said 200 of this work: whatever it holds, nothing is at work any more."""

    def value(self) -> float:
        """The raw score.

        Raises:
            RewardUnavailableError: the deadline was over first, or the score came after it.
            RewardContractError: an answer that is final and holds no score.
            RewardConfigError: an answer that only a person can mend.
        """
        config = self._call.config
        failures, said = 0, "none"
        while self._call.left() > 0:
            pulled = self._pull()
            if isinstance(pulled, Scored):
                self._refuse_late()
                return pulled.value
            if isinstance(pulled, Unanswered):
                self.retries += 1
                if self.polls > 1 and self._call.left() <= 0:
                    # Cut off by the deadline itself: what was said before tells more.
                    break
                # Up to 2^60: a float has no trouble with it, and the cap is far below.
                wait = min(config.poll_interval_max_s, config.poll_interval_s * 2.0 ** min(failures, 60))
                failures += 1
            else:
                failures, wait = 0, config.poll_interval_s
            said = pulled.said
            self._call.clock.sleep(max(0.0, min(wait, self._call.left())))
        raise RewardUnavailableError(self._over(said, failures))

    def _pull(self) -> Pulled:
        call, config = self._call, self._call.config
        self.polls += 1
        reply = call.post(
            config.pull_url, self._form, "application/x-www-form-urlencoded", config.pull_timeout_s, self._headers
        )
        if isinstance(reply, NoAnswer):
            if reply.oversized:
                raise RewardContractError(f"{self._what}: {reply.why}: it is no score")
            return Unanswered(call.quoted(reply.why))
        self.settled = reply.status == 200
        return read_pulled(
            reply.status,
            reply.body,
            uuid=self._uuid,
            score_key=config.score_key,
            what=self._what,
            quoted=call.quoted,
            location=reply.location,
        )

    def _refuse_late(self) -> None:
        late = -self._call.left()
        if late >= 0:
            raise RewardUnavailableError(
                f"{self._what}: the score came {late:.3g} s after the evaluation deadline and is refused: raise "
                "evaluation_timeout_s"
            )

    def _over(self, said: str, failures: int) -> str:
        config = self._call.config
        text = (
            f"{self._what}: no score before the evaluation deadline (evaluation_timeout_s = "
            f"{config.evaluation_timeout_s:g}); {self.polls} pulls, {self.retries} of them failed, the last answer was "
            f"{said}. The service can't cancel, so its work may go on. "
        )
        if failures:
            why = "A permanent 500 is what the public server makes of a score that is not finite"
            return text + (why if said.startswith("500") else "Pulls are repeated until the deadline, and no longer")
        return text + (
            f"The public server also says pending for ever of a reward it does not know (reward = {config.reward!r}), "
            "a sample it can't read, and work that it dropped: its log tells which"
        )
