# SPDX-License-Identifier: Apache-2.0
"""`RewardServiceClient`: has one sample scored, within one absolute deadline."""

from __future__ import annotations

import threading
from typing import final

from posttrain.errors import RewardConfigError, RewardContractError, describe, listing
from posttrain.media.client.call import Call
from posttrain.media.client.clock import Clock, SystemClock
from posttrain.media.client.enqueue import enqueue
from posttrain.media.client.poll import Poll
from posttrain.media.config import ServiceConfig, VideoRewardConfig
from posttrain.media.sample import SampleScorer, ServiceScore, SpooledSample
from posttrain.media.transport import CurlTransport, Secret, Transport
from posttrain.media.wire import Quoter, enqueue_line

__all__ = ["RewardServiceClient"]


@final
class RewardServiceClient(SampleScorer):
    """Speaks the reward service's protocol.

    One enqueue, never repeated: the service has no idempotency key. Then pulls with the uuid of its answer, and with
    the replica's header where one was named. Pulls alone are repeated, with a capped backoff, until the deadline.
    Keeps nothing between two samples but a count; safe to share between threads.

    Args:
        config: the service, its bounds, and the name of the credential's variable, which is read anew for each sample.
        transport: sends the requests; by default the curl program.
        clock: the time to go by; the deadline of `score` is on its `monotonic`.
    """

    def __init__(
        self, config: ServiceConfig, transport: Transport | None = None, *, clock: Clock | None = None
    ) -> None:
        self._config = config
        self._transport = CurlTransport() if transport is None else transport
        self._clock = SystemClock() if clock is None else clock
        self._lock = threading.Lock()
        self._orphans = 0

    def __repr__(self) -> str:
        return f"RewardServiceClient({self._config!r}, {self._transport!r})"

    @property
    def orphans(self) -> int:
        """Samples whose remote work may go on with nobody to collect its score, since this client was made.

        Those are the ambiguous enqueues, and the samples that were given up before the service said 200 of them. The
        service offers no way to cancel.
        """
        return self._orphans

    def check_machine(self) -> None:
        """Look for the transport's program and for the credential. No network.

        Raises:
            RewardConfigError: naming all that is missing.
        """
        faults = []
        for check in (self._transport.check_machine, self._token):
            try:
                check()
            except RewardConfigError as error:
                faults.append(error)
        if len(faults) == 1:
            raise faults[0]
        if faults:
            raise RewardConfigError(f"this machine lacks:\n{listing([each.message for each in faults])}")

    def enqueue_line(self, prompt: str | None) -> bytes:
        """The JSON line of the enqueue body with its LF.

        Args:
            prompt: the prompt of the one sample when the config says `send_prompts`, else None.

        Raises:
            RewardContractError: a prompt that is missing, not wanted or no text, or a line the service would drop.
        """
        config = self._config
        if config.send_prompts == (prompt is None):
            expected = (
                "a prompt, since send_prompts is set" if prompt is None else "no prompt, since send_prompts is not"
            )
            raise RewardContractError(f"prompt: expected {expected}; got {describe(prompt)}")
        return enqueue_line(
            media_type=config.media_type,
            reward=config.reward,
            fps=config.fps if isinstance(config, VideoRewardConfig) else None,
            prompts=None if prompt is None else [prompt],
        )

    def score(self, sample: SpooledSample, *, deadline: float) -> ServiceScore:
        """Enqueue the sample once, then pull until its score is there.

        Args:
            sample: what to send; its descriptor stays the caller's.
            deadline: absolute, on the clock's `monotonic`; nothing is accepted after it.

        Raises:
            RewardUnavailableError: the service did not answer in time, or nothing could be sent.
            RewardContractError: an answer that is final and holds no score, or an enqueue whose fate is not known.
            RewardConfigError: an answer that only a person can mend, a missing program or credential.
        """
        self._check(sample)
        token = self._token()
        call = Call(
            config=self._config,
            transport=self._transport,
            clock=self._clock,
            token=token,
            quoted=Quoter([] if token is None else [token.reveal()]),
            deadline=deadline,
        )
        started = self._clock.monotonic()
        ticket = enqueue(call, sample, self._count_orphan)
        enqueued = self._clock.monotonic()
        poll = Poll(call, ticket)
        try:
            value = poll.value()
        finally:
            if not poll.settled:
                self._count_orphan()
        return ServiceScore(
            value=value,
            enqueue_seconds=enqueued - started,
            wait_seconds=self._clock.monotonic() - enqueued,
            polls=poll.polls,
            pull_retries=poll.retries,
        )

    def _token(self) -> Secret | None:
        value = self._config.token()
        return None if value is None else Secret(value, f"the environment variable {self._config.credential}")

    def _check(self, sample: SpooledSample) -> None:
        if sample.media_type != self._config.media_type:
            raise RewardContractError(f"expected a sample of type {self._config.media_type}, got {sample.media_type}")
        if sample.shape[:1] != (1,):
            raise RewardContractError(
                f"expected one item in the sample, got an array of shape {list(sample.shape)}: its scores could not be "
                "told apart; send one sample at a time"
            )

    def _count_orphan(self) -> None:
        with self._lock:
            self._orphans += 1
