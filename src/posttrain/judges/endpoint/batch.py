# SPDX-License-Identifier: Apache-2.0
"""The questions of one `ask`, from the thread that waits to the loop that asks, and back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import NamedTuple, final

from posttrain.errors import RewardContractError
from posttrain.judges.endpoint.asking import Answered, Asker, Question

__all__ = ["Batch"]

_CLOSED = "the judge's endpoint was closed while it was asked"


class _Over(NamedTuple):
    """The last that the loop says of a batch."""

    error: BaseException | None


@final
class Batch:
    """Questions that are asked at once. One failure, or `cancel`, ends them all.

    The loop is told once. It tells each answer as it comes where answers are recorded, else all at the end: waking a
    thread costs about as much as sending a request.

    Args:
        asker: asks them.
        questions: at least one.
        loop: of the runtime.
        each: whether each answer is told as it comes.
    """

    def __init__(
        self, asker: Asker, questions: Sequence[Question], loop: asyncio.AbstractEventLoop, *, each: bool
    ) -> None:
        self._asker = asker
        self._questions = questions
        self._loop = loop
        self._each = each
        self._untold: list[tuple[int, Answered]] = []
        self._said: SimpleQueue[list[tuple[int, Answered]] | _Over] = SimpleQueue()
        self._over = threading.Event()
        self._task: asyncio.Task[None] | None = None
        self._has_begun = False
        self._has_ended = False
        self._error: BaseException | None = None

    def begin(self) -> None:
        """Start asking.

        Raises:
            RewardContractError: the runtime has ended.
        """
        try:
            self._loop.call_soon_threadsafe(self._begin)
        except RuntimeError as error:
            raise RewardContractError(_CLOSED) from error
        self._has_begun = True

    def cancel(self) -> None:
        """Stop asking; `rest` says when it is over. From any thread."""
        # A loop that is closed has cancelled it already.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._cancel)

    def next(self) -> list[tuple[int, Answered]]:
        """Wait for answers: those that have come, with the places of their questions; none: all have come.

        Raises:
            RewardError: a question failed for good; the others are cancelled and over.
        """
        found = list[tuple[int, Answered]]()
        # Nobody else takes from it, so what is there stays there.
        while not self._has_ended and not (found and self._said.empty()):
            said = self._said.get()
            if isinstance(said, _Over):
                self._has_ended = True
                self._error = said.error
            else:
                found += said
        if not found and self._error is not None:
            raise self._error
        return found

    def rest(self) -> list[tuple[int, Answered]]:
        """Wait until it is over, whatever came of it, and return the answers that nobody has taken yet."""
        found = list[tuple[int, Answered]]()
        # Not by the queue: an interrupt may have taken the last word out of it.
        if self._has_begun:
            self._over.wait()
        while not self._said.empty():
            said = self._said.get()
            found += [] if isinstance(said, _Over) else said
        return found

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._run())
        # Not the end of the coroutine: one that is cancelled before its first step has none.
        self._task.add_done_callback(self._end)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for place, question in enumerate(self._questions):
                group.create_task(self._ask(place, question))

    def _end(self, task: asyncio.Task[None]) -> None:
        error = RewardContractError(_CLOSED) if task.cancelled() else task.exception()
        self._said.put(self._untold)
        self._said.put(_Over(_first(error) if isinstance(error, BaseExceptionGroup) else error))
        self._over.set()

    async def _ask(self, place: int, question: Question) -> None:
        answer = place, await self._asker.answer(question)
        if self._each:
            self._said.put([answer])
        else:
            self._untold.append(answer)


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """The failure that ended the batch."""
    first = failures.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
