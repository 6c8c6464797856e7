# SPDX-License-Identifier: Apache-2.0
"""Asking with a cache: what is recorded is not asked, what is answered is recorded at once, equal calls are one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from msgspec.structs import replace

from posttrain.errors import RewardError
from posttrain.judges.cache.answers import AnswerCache, RecordedAnswer
from posttrain.judges.endpoint.asking import Answered, Question
from posttrain.judges.endpoint.batch import Batch
from posttrain.judges.endpoint.call import JudgeAnswer, JudgeReplyError

__all__ = ["Recording"]


@final
class Recording:
    """One `ask` over a cache.

    The answer that was recorded first holds: where another thread or process has answered an equal question in the
    meantime, its answer is taken, so that a replay gives what the run gave.

    Args:
        cache: the open cache.
        questions: what is asked.
        recorded: what would be recorded of a question, without its answer.
    """

    def __init__(
        self, cache: AnswerCache, questions: Sequence[Question], recorded: Callable[[Question], RecordedAnswer]
    ) -> None:
        self._cache = cache
        self._questions = questions
        self._blanks = [recorded(question) for question in questions]
        """What would be recorded of each question, without the answer."""
        self._answers: list[JudgeAnswer[Any] | None] = [None] * len(questions)
        self._unreadable: set[str] = set()
        self._asked: list[int] = []

    def missing(self) -> list[Question]:
        """The questions that have to be asked: not recorded, and each key once."""
        found = self._cache.find([blank.key for blank in self._blanks])
        seen = set[str]()
        for place, (question, blank) in enumerate(zip(self._questions, self._blanks, strict=True)):
            stored = found.get(blank.key)
            if stored is not None:
                try:
                    self._answers[place] = _free(question.call.parse(stored.answer))
                    continue
                except JudgeReplyError:
                    # It was recorded because it could be parsed: the parser has changed, so it is asked anew.
                    self._unreadable.add(blank.key)
            if blank.key not in seen:
                seen.add(blank.key)
                self._asked.append(place)
        return [self._questions[place] for place in self._asked]

    def collect(self, batch: Batch) -> None:
        """Record each answer as it comes, until all have come; what came before a failure is recorded too."""
        try:
            while found := batch.next():
                self._record(found)
        except BaseException as error:
            batch.cancel()
            rest = batch.rest()
            if not isinstance(error, RewardError):
                self._record(rest)
            raise

    def _record(self, found: Sequence[tuple[int, Answered]]) -> None:
        rows = []
        for number, answered in found:
            place = self._asked[number]
            self._answers[place] = answered.answer
            rows.append(self._blanks[place].filled(answered.text, *answered.usage))
        earlier = self._cache.record(rows, replacing=self._unreadable)
        for number, answered in found:
            place = self._asked[number]
            stored = earlier.get(self._blanks[place].key)
            if stored is not None and stored.answer != answered.text:
                self._adopt(place, stored)

    def _adopt(self, place: int, stored: RecordedAnswer) -> None:
        value = self._questions[place].call.parse(stored.answer)
        mine = self._answers[place]
        if mine is not None:
            self._answers[place] = replace(mine, value=value)

    def answers(self) -> list[JudgeAnswer[Any]]:
        """One answer a question, when all have come; equal questions share the value of the first."""
        values = {self._blanks[place].key: self._answers[place] for place in self._asked}
        complete = list[JudgeAnswer[Any]]()
        for blank, answer in zip(self._blanks, self._answers, strict=True):
            if answer is not None:
                complete.append(answer)
            elif (first := values[blank.key]) is not None:
                complete.append(_free(first.value))
        return complete


def _free(value: Any) -> JudgeAnswer[Any]:
    """An answer for which nothing was sent."""
    return JudgeAnswer(
        value=value,
        calls=0,
        retries=0,
        prompt_tokens=0,
        completion_tokens=0,
        cost=0.0,
        seconds=0.0,
        parse_failures=0,
        cached=True,
    )
