# SPDX-License-Identifier: Apache-2.0
"""An endpoint as a judge uses it: opened, asked, closed."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any, Final, NamedTuple, TypeVar, final
from weakref import WeakSet

from posttrain.errors import RewardConfigError, RewardContractError, listing
from posttrain.frozen import FrozenJson
from posttrain.judges.cache.answers import AnswerCache, RecordedAnswer, answer_key
from posttrain.judges.config import JudgeConfig
from posttrain.judges.endpoint.asking import Asker, Question
from posttrain.judges.endpoint.batch import Batch
from posttrain.judges.endpoint.body import estimated_tokens, request_body
from posttrain.judges.endpoint.call import JudgeAnswer, JudgeCall
from posttrain.judges.endpoint.credential import read_credential
from posttrain.judges.endpoint.limits import Limits
from posttrain.judges.endpoint.link import Link
from posttrain.judges.endpoint.machine import machine_faults
from posttrain.judges.endpoint.recorded import Recording
from posttrain.judges.endpoint.retry import Backoff
from posttrain.judges.endpoint.runtime import Runtime, join_runtime, leave_runtime, require_aiohttp

__all__ = ["JudgeEndpoint"]

T = TypeVar("T")

_PROBE_SCHEMA: Final[FrozenJson] = {
    "type": "object",
    "properties": {"ready": {"type": "boolean"}},
    "required": ("ready",),
    "additionalProperties": False,
}
_PROBE_MESSAGE: Final = {"role": "user", "content": 'Answer with the JSON object {"ready": true} and nothing else.'}
_SHOWN: Final = 80
_LOOK_AGAIN_S: Final = 0.05
_LEAVE_S: Final = 10.0
"""Seconds that a close waits for those whose calls it has cancelled; they need a moment, unless a parser hangs."""


class _Asking:
    """One who asks."""


class _Open(NamedTuple):
    """What an open endpoint has."""

    pid: int
    runtime: Runtime
    asker: Asker
    cache: AnswerCache | None


@final
class JudgeEndpoint:
    """A model behind an endpoint.

    Made without a call, a key or a file; `open` reads the key. All endpoints of a process share one thread with one
    event loop and one HTTP session, from the first `open` to the last `close`, and their limits where base URL, model
    and credential are the same.

    Args:
        config: how it is reached and asked.
        content_sha256: hash of the complete judge content (prompts, scale, parser version); part of the key of each
            recorded answer.
    """

    def __init__(self, config: JudgeConfig, content_sha256: str) -> None:
        self.config = config
        self._content = content_sha256
        self._identity = config.cache_identity()
        self._open: _Open | None = None
        self._batches: set[Batch] = set()
        self._changed = threading.Condition()
        # Weak: an interrupt may keep one who asks from leaving, but not from ending.
        self._asking: WeakSet[_Asking] = WeakSet()

    def __repr__(self) -> str:
        return f"JudgeEndpoint(model={self.config.model!r}, url={self.config.url!r})"

    def open(self) -> None:
        """Read the key, open the cache, join the shared session. No network call.

        Raises:
            RewardConfigError: the key's variable is not set, the cache can't be used, aiohttp is not installed.
            RewardContractError: it is open already.
        """
        config = self.config
        if self._open is not None and self._open.pid == os.getpid():
            raise RewardContractError("the judge's endpoint is open already: open it once, close it once")
        require_aiohttp()
        credential = read_credential(config.credential_variable)
        cache = None if config.cache is None else AnswerCache(config.cache)
        if cache is not None:
            cache.open()
        try:
            key = config.url, config.model, config.credential_variable
            limits = Limits(config.concurrency, config.requests_per_minute, config.tokens_per_minute)
            runtime, limiter = join_runtime(self, key, limits)
            asker = Asker(config, credential, Link(config, credential, runtime.http), limiter, Backoff(config))
        except BaseException:
            leave_runtime(self)
            if cache is not None:
                cache.close()
            raise
        self._open = _Open(os.getpid(), runtime, asker, cache)

    def close(self) -> None:
        """Let go of everything; what is still asked is cancelled. Closing what is not open does nothing."""
        with self._changed:
            opened, self._open = self._open, None
            if opened is None or opened.pid != os.getpid():
                return
            for batch in self._batches:
                batch.cancel()
            end = monotonic() + _LEAVE_S
            while self._asking and monotonic() < end:
                self._changed.wait(_LOOK_AGAIN_S)
        leave_runtime(self)
        if opened.cache is not None:
            opened.cache.close()

    def ask(self, calls: Sequence[JudgeCall[T]]) -> list[JudgeAnswer[T]]:
        """Ask all of them at once, within the limits, and wait: one answer per call, in the order of the calls.

        From any thread, many at once. When one fails for good the others are cancelled. An interrupt of the waiting
        thread cancels them too and passes through.

        Raises:
            RewardUnavailableError: a call found no usable answer within its retries and its deadline; names model,
                base URL, `JudgeCall.key` and the reason of each attempt.
            RewardConfigError: 401, 403, 404 and the like, which only a person can mend.
            RewardContractError: 400, 422 and the like: the request itself is at fault; or the endpoint is not open.
        """
        with self._used() as opened:
            questions = [self._question(call) for call in calls]
            if opened.cache is None:
                return self._asked(opened, questions)
            recording = Recording(opened.cache, questions, self._blank)
            if missing := recording.missing():
                with self._batch(opened, missing) as batch:
                    recording.collect(batch)
            return recording.answers()

    def check_machine(self) -> None:
        """What `CheckedRewardProvider.check_machine` is to do for a judge: no network, keeps nothing.

        Raises:
            RewardConfigError: naming everything that this machine lacks.
        """
        if faults := machine_faults(self.config):
            raise RewardConfigError(f"this machine lacks what the judge needs:\n{listing(faults)}")

    def probe(self, call: JudgeCall[Any] | None = None) -> str:
        """One real call, past the cache; returns one line saying what came back. The endpoint is open.

        Args:
            call: what to ask; None: a short question of its own.

        Raises:
            RewardError: as `ask` does.
        """
        asked = call or JudgeCall(
            messages=(_PROBE_MESSAGE,), parse=str.strip, key="the probe", schema=_PROBE_SCHEMA, schema_name="probe"
        )
        with self._used() as opened:
            (answer,) = self._asked(opened, [self._question(asked)])
        text = repr(answer.value)
        text = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
        tokens = "tokens not told"
        if answer.prompt_tokens is not None and answer.completion_tokens is not None:
            tokens = f"{answer.prompt_tokens} + {answer.completion_tokens} tokens"
        tries = "" if answer.calls == 1 else f", at attempt {answer.calls}"
        return f"{self.config.model} at {self.config.url} answered {text} in {answer.seconds:.2f} s ({tokens}{tries})"

    def calls_at_once(self) -> Mapping[str, int]:
        """What `RemoteRewardProvider.calls_at_once` returns for a judge: URL and model to the calls of one process."""
        return {f"{self.config.url} ({self.config.model})": self.config.concurrency}

    def cautions(self) -> tuple[str, ...]:
        """What `RemoteRewardProvider.cautions` returns for a judge."""
        return self.config.cautions()

    def _question(self, call: JudgeCall[Any]) -> Question:
        try:
            body = request_body(self.config, call)
        except UnicodeEncodeError as error:
            raise RewardContractError(f"the question about {call.key} can't be sent as JSON: {error}") from error
        return Question(call, body, estimated_tokens(self.config, body))

    def _blank(self, question: Question) -> RecordedAnswer:
        key = answer_key(self._content, self._identity, question.body, question.call.sample)
        config, sample = self.config, question.call.sample
        return RecordedAnswer(key, self._content, config.model, config.url, sample, question.body.decode())

    def _asked(self, opened: _Open, questions: Sequence[Question]) -> list[JudgeAnswer[Any]]:
        answers: list[Any] = [None] * len(questions)
        if questions:
            with self._batch(opened, questions) as batch:
                while found := batch.next():
                    for place, answered in found:
                        answers[place] = answered.answer
        return answers

    @contextmanager
    def _used(self) -> Iterator[_Open]:
        """Keep the endpoint open while it is asked."""
        who = _Asking()
        try:
            with self._changed:
                opened = self._open
                if opened is None:
                    raise RewardContractError("the judge's endpoint is not open: call open() before it is asked")
                if opened.pid != os.getpid():
                    raise RewardContractError(
                        "the judge's endpoint was opened in another process, which a fork does not carry: open it here"
                    )
                self._asking.add(who)
            yield opened
        finally:
            with self._changed:
                self._asking.discard(who)
                self._changed.notify_all()

    @contextmanager
    def _batch(self, opened: _Open, questions: Sequence[Question]) -> Iterator[Batch]:
        """Ask, and leave nothing of it behind, whatever comes."""
        batch = Batch(opened.asker, questions, opened.runtime.loop, each=opened.cache is not None)
        try:
            with self._changed:
                self._batches.add(batch)
                batch.begin()
                if self._open is not opened:
                    batch.cancel()
            yield batch
        except BaseException:
            batch.cancel()
            batch.rest()
            raise
        finally:
            with self._changed:
                self._batches.discard(batch)
