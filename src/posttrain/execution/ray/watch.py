# SPDX-License-Identifier: Apache-2.0
"""Ask busy actors for a sign of life, and find those that are silent or hang in a group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, Final, Protocol, final

from posttrain.errors import text_of
from posttrain.execution.ray.member import Member, call
from posttrain.execution.ray.pool import Pool

__all__ = ["Watch"]

_SHORTEST_BEAT_S: Final = 0.05
_LONGEST_BEAT_S: Final = 5.0


class _Lose(Protocol):
    def __call__(self, member: Member, why: str, *, silent: bool) -> None: ...


@final
class Watch:
    """Touched by the dispatcher's thread alone.

    An actor answers from a thread of its own while it evaluates, so silence means that its process is stopped or gone,
    or that native code holds its interpreter. A silent actor is given as long as one group may take.

    Args:
        pool: whose actors are watched while they are busy.
        limit_s: how long one group may take, and an actor be silent.
        post: hands a call to the dispatcher's thread.
        lose: takes an actor that went silent.
        salvaged: takes an actor in which a group took too long, with what else it has done.
    """

    def __init__(
        self,
        pool: Pool,
        limit_s: float,
        post: Callable[[Callable[[], None]], None],
        lose: _Lose,
        salvaged: Callable[[Member, Sequence[bytes]], None],
    ) -> None:
        self.beat_s = min(_LONGEST_BEAT_S, max(_SHORTEST_BEAT_S, limit_s / 8))
        """Seconds between two questions."""
        self._pool = pool
        self._limit = limit_s
        self._post = post
        self._lose = lose
        self._salvaged = salvaged
        self._asked: float = float("-inf")
        self._looked: float | None = None

    def look(self, now: float, *, waiting: bool) -> None:
        """Find the silent, and ask the others when it is time: the idle too, before they are given groups."""
        ready = self._pool.ready()
        busy = [each for each in ready if each.out]
        held_up = 0.0 if self._looked is None else now - self._looked - self.beat_s
        self._looked = now if busy else None
        if held_up > self.beat_s:
            # It was this process that stood still; nobody could be heard meanwhile.
            for member in busy:
                member.heard += held_up
        for member in busy:
            if now - member.heard > self._limit + self.beat_s:
                why = f"no sign of life for {now - member.heard:.1f} s (group_timeout_s is {self._limit:g} s)"
                self._lose(member, why, silent=True)
        for member in ready:
            if member.out or member.is_fresh(now):
                continue
            if member.asked is None and waiting:
                self._ask(member)
            elif member.asked is not None and now - member.asked > self._limit + self.beat_s:
                self._lose(member, "no sign of life while it was idle", silent=True)
        if now - self._asked >= self.beat_s:
            self._asked = now
            for member in busy:
                if member.state == "ready" and member.asked is None:
                    self._ask(member)

    def _ask(self, member: Member) -> None:
        member.asked = monotonic()
        call(
            member.actor.progress.options(concurrency_group="control").remote(),
            self._post,
            lambda value, error: self._told(member, value, error),
        )

    def _told(self, member: Member, value: Any, error: BaseException | None) -> None:
        member.asked = None
        if member.state != "ready":
            return
        if error is not None:
            if not member.out:
                self._lose(member, text_of(error), silent=False)
            return  # what it has fails the same way, and that failure says so
        member.heard = monotonic()
        hangs = any(seconds > self._limit for _, running in value for _, _, seconds in running)
        if hangs and not member.cutting:
            member.cutting = True
            call(
                member.actor.salvage.options(concurrency_group="control").remote(),
                self._post,
                lambda answers, failure: self._cut(member, answers, failure),
            )

    def _cut(self, member: Member, answers: Any, error: BaseException | None) -> None:
        if error is None and member.state == "ready":
            self._salvaged(member, answers)
