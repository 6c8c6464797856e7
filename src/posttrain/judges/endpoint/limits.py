# SPDX-License-Identifier: Apache-2.0
"""Turns under a limit of calls in flight, of calls per minute and of tokens per minute.

A limiter belongs to the one event loop of the process: `turn` and `release` are called in its thread only. Any 60
seconds are held to the limits, not only those that begin with a full minute.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, final

__all__ = ["Limiter", "Limits", "Turn"]

_MINUTE: Final = 60.0


class Limits(NamedTuple):
    """What one judge declares."""

    concurrency: int
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


@final
class Turn:
    """Leave to make one call."""

    __slots__ = ("at", "is_counted", "tokens")

    def __init__(self, at: float, tokens: int, *, is_counted: bool) -> None:
        self.at = at
        self.tokens = tokens
        self.is_counted = is_counted
        """Whether its tokens are among those of the last minute."""


def _smaller(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)


@final
class Limiter:
    """Gives turns in the order in which they are asked for; retries come first. Of several limits the smallest holds.

    Args:
        window_s: what a minute is.
        now: the loop's clock, in seconds.
    """

    def __init__(self, window_s: float = _MINUTE, now: Callable[[], float] = time.monotonic) -> None:
        self._window = window_s
        self._now = now
        self._declared: dict[object, Limits] = {}
        self._limits = Limits(1)
        self._in_flight = 0
        self._urgent: deque[tuple[asyncio.Future[Turn], int]] = deque()
        self._waiting: deque[tuple[asyncio.Future[Turn], int]] = deque()
        self._recent: deque[Turn] = deque()
        self._tokens = 0
        self._timer: asyncio.TimerHandle | None = None

    def join(self, who: object, limits: Limits) -> None:
        """Hold to `limits` too, until `leave`."""
        self._declared[who] = limits
        self._settle()

    def leave(self, who: object) -> None:
        """Forget what `who` declared."""
        self._declared.pop(who, None)
        if self._declared:
            self._settle()

    @property
    def is_forgettable(self) -> bool:
        """Whether nobody uses it and no call of the last minute needs to be remembered."""
        return not self._declared and (not self._recent or self._recent[-1].at <= self._now() - self._window)

    def _settle(self) -> None:
        concurrency, requests, tokens = zip(*self._declared.values(), strict=True)
        least: list[int | None] = [None, None]
        for one, other in zip(requests, tokens, strict=True):
            least = [_smaller(least[0], one), _smaller(least[1], other)]
        self._limits = Limits(min(concurrency), least[0], least[1])

    async def turn(self, tokens: int, *, urgent: bool = False) -> Turn:
        """Wait for a turn; give it back with `release`, whatever comes.

        Args:
            tokens: what the call may take.
            urgent: whether it comes before those that wait, as a retry does, whose deadline runs.
        """
        goes_first = not self._urgent and (urgent or not self._waiting)
        if goes_first and self._in_flight < self._limits.concurrency and self._wait(tokens) <= 0:
            return self._take(tokens)
        future: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        (self._urgent if urgent else self._waiting).append((future, tokens))
        self.admit()
        try:
            return await future
        except asyncio.CancelledError:
            # Its turn may have come in the moment in which it was cancelled.
            if future.done() and not future.cancelled():
                self.release(future.result())
            raise

    def release(self, turn: Turn, tokens: int | None = None) -> None:
        """Give a turn back.

        Args:
            turn: what `turn` gave.
            tokens: what the call really took; None: that is not known, and the estimate stands.
        """
        self._in_flight -= 1
        if tokens is not None:
            if turn.is_counted:
                self._tokens += tokens - turn.tokens
            turn.tokens = tokens
        self.admit()

    def admit(self) -> None:
        """Give turns to those that wait, as far as the limits go; due when these have become wider."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while (queue := self._urgent or self._waiting) and self._in_flight < self._limits.concurrency:
            future, tokens = queue[0]
            if future.done():
                queue.popleft()
            elif (wait := self._wait(tokens)) > 0:
                self._timer = future.get_loop().call_later(wait, self.admit)
                return
            else:
                queue.popleft()
                future.set_result(self._take(tokens))

    def _take(self, tokens: int) -> Turn:
        self._in_flight += 1
        _, requests, most = self._limits
        turn = Turn(self._now(), tokens, is_counted=requests is not None or most is not None)
        if turn.is_counted:
            self._recent.append(turn)
            self._tokens += tokens
        return turn

    def _wait(self, tokens: int) -> float:
        """Seconds until a call of so many tokens may go out; 0.0: it may now."""
        _, requests, most = self._limits
        if requests is None and most is None:
            return 0.0
        now, recent = self._now(), self._recent
        while recent and recent[0].at <= now - self._window:
            old = recent.popleft()
            old.is_counted = False
            self._tokens -= old.tokens
        free_at = now
        if requests is not None and len(recent) >= requests:
            free_at = recent[len(recent) - requests].at + self._window
        if most is not None:
            # A call that takes more than a minute's tokens goes out when no other is remembered.
            over = self._tokens + min(tokens, most) - most
            for turn in recent:
                if over <= 0:
                    break
                over -= turn.tokens
                free_at = max(free_at, turn.at + self._window)
        return free_at - now
