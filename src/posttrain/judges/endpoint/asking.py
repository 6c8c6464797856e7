# SPDX-License-Identifier: Apache-2.0
"""One question until it is answered: turns, attempts, waits; then an answer, or an error that tells them all."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, final

from posttrain.errors import RewardUnavailableError, listing
from posttrain.judges.config import JudgeConfig
from posttrain.judges.endpoint.call import JudgeAnswer, JudgeCall, JudgeReplyError
from posttrain.judges.endpoint.credential import Credential
from posttrain.judges.endpoint.limits import Limiter, Turn
from posttrain.judges.endpoint.link import Link, Received, SendError
from posttrain.judges.endpoint.refused import refusal_of
from posttrain.judges.endpoint.reply import Usage, oversized, read_reply
from posttrain.judges.endpoint.retry import Backoff, retry_after

__all__ = ["Answered", "Asker", "Question"]

_OK: Final = 200
_MAY_PASS: Final = frozenset({"malformed", "oversized"})
"""Faults of whoever sent the body, which waiting may mend. The others are the model's: it is asked again at once."""


class Question(NamedTuple):
    """A call with what is computed of it once."""

    call: JudgeCall[Any]
    body: bytes
    tokens: int
    """Estimate of what it takes of the tokens per minute."""


class Answered(NamedTuple):
    """An answer, with the text and the usage that a cache records."""

    answer: JudgeAnswer[Any]
    text: str
    usage: Usage


class _Good(NamedTuple):
    value: Any
    text: str
    usage: Usage


class _Bad(NamedTuple):
    reason: str
    asked_s: float | None = None
    """What the endpoint asked to wait."""
    waits: bool = True
    """Whether the next attempt waits at all."""


@dataclass(slots=True)
class _Spent:
    """What a question has taken so far."""

    started: float
    requests: int = 0
    parse_failures: int = 0
    usages: list[Usage] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


@final
class Asker:
    """Asks questions of one endpoint, in the loop's thread.

    Args:
        config: retries, deadline, prices.
        credential: what may not be shown.
        link: where requests go.
        limiter: gives turns.
        backoff: says how long to wait.
    """

    def __init__(
        self, config: JudgeConfig, credential: Credential, link: Link, limiter: Limiter, backoff: Backoff
    ) -> None:
        self._config = config
        self._credential = credential
        self._link = link
        self._limiter = limiter
        self._backoff = backoff

    async def answer(self, question: Question) -> Answered:
        """Ask until there is an answer that can be used.

        Raises:
            RewardUnavailableError: none came within the retries and the deadline.
            RewardConfigError: a status that only a person can mend.
            RewardContractError: the request itself was refused.
        """
        clock = asyncio.get_running_loop().time
        turn = await self._limiter.turn(question.tokens)
        spent = _Spent(clock())
        deadline = spent.started + self._config.total_timeout_s
        while True:
            outcome = await self._attempt(question, turn, deadline, spent)
            if isinstance(outcome, _Good):
                return self._answered(outcome, spent, clock() - spent.started)
            spent.reasons.append(outcome.reason)
            turn = await self._next_turn(question, outcome, deadline, spent)

    async def _next_turn(self, question: Question, bad: _Bad, deadline: float, spent: _Spent) -> Turn:
        retry, clock = len(spent.reasons), asyncio.get_running_loop().time
        limit = f"the deadline of {self._config.total_timeout_s:g} s"
        if retry > self._config.max_retries:
            raise self._exhausted(question, spent, f"max_retries is {self._config.max_retries}")
        wait = self._backoff.wait(retry, bad.asked_s) if bad.waits else 0.0
        if clock() + wait >= deadline:
            asked = "" if bad.asked_s is None else f", the endpoint asked for {bad.asked_s:g} s"
            raise self._exhausted(question, spent, f"the next attempt would come after {limit}{asked}")
        try:
            async with asyncio.timeout_at(deadline):
                await asyncio.sleep(wait)
                return await self._limiter.turn(question.tokens, urgent=True)
        except TimeoutError as error:
            raise self._exhausted(question, spent, f"no turn came within the limits before {limit}") from error

    async def _attempt(self, question: Question, turn: Turn, deadline: float, spent: _Spent) -> _Good | _Bad:
        used = None
        spent.requests += 1
        try:
            received = await self._link.send(question.body, deadline)
            if received.status != _OK:
                return self._refused(question, received)
            reply = read_reply(received.body) if received.is_whole else oversized(self._config.max_response_bytes)
            used = _sum(reply.usage)
        except SendError as error:
            # What it took is not known: no total of its tokens would be true.
            spent.usages.append(Usage(None, None))
            return _Bad(str(error))
        finally:
            self._limiter.release(turn, used)
        spent.usages.append(reply.usage)
        try:
            if reply.fault is not None:
                raise reply.fault
            return _Good(question.call.parse(reply.text), reply.text, reply.usage)
        except JudgeReplyError as fault:
            spent.parse_failures += 1
            return _Bad(self._credential.masked(str(fault)), waits=fault.kind in _MAY_PASS)

    def _refused(self, question: Question, received: Received) -> _Bad:
        """What a status other than 200 says; it raises where no retry helps."""
        said, final_error = refusal_of(self._config, question.call.key, received, self._credential)
        if final_error is not None:
            raise final_error
        return _Bad(said, retry_after(received.retry_after))

    def _answered(self, good: _Good, spent: _Spent, seconds: float) -> Answered:
        prompt = _sum(usage.prompt for usage in spent.usages)
        completion = _sum(usage.completion for usage in spent.usages)
        answer = JudgeAnswer(
            value=good.value,
            calls=spent.requests,
            retries=spent.requests - 1,
            prompt_tokens=prompt,
            completion_tokens=completion,
            cost=self._cost(prompt, completion),
            seconds=seconds,
            parse_failures=spent.parse_failures,
            cached=False,
        )
        return Answered(answer, good.text, good.usage)

    def _cost(self, prompt: int | None, completion: int | None) -> float | None:
        prices = self._config.prompt_price_per_million, self._config.completion_price_per_million
        if prompt is None or completion is None or prices[0] is None or prices[1] is None:
            return None
        return (prompt * prices[0] + completion * prices[1]) / 1e6

    def _exhausted(self, question: Question, spent: _Spent, why: str) -> RewardUnavailableError:
        seconds = asyncio.get_running_loop().time() - spent.started
        tried = "1 attempt" if spent.requests == 1 else f"{spent.requests} attempts"
        return RewardUnavailableError(
            f"no usable answer for {question.call.key}{_sample(question.call)} of model {self._config.model!r} at "
            f"{self._config.url} after {tried} in {seconds:.3g} s; {why}:\n"
            f"{listing([f'{number}: {reason}' for number, reason in enumerate(spent.reasons, 1)])}"
        )


def _sample(call: JudgeCall[Any]) -> str:
    return f" (sample {call.sample})" if call.sample else ""


def _sum(counts: Iterable[int | None]) -> int | None:
    """The sum; None where a count is not known."""
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total
