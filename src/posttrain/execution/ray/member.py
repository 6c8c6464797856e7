# SPDX-License-Identifier: Apache-2.0
"""One reward actor as the driver sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, Final, Literal, TypeAlias, final

from posttrain.execution.ray.batch import Batch
from posttrain.execution.ray.messages import Ready

__all__ = ["FRESH_S", "Dispatch", "Member", "Reply", "State", "call", "least_loaded"]

State: TypeAlias = Literal["starting", "ready", "leaving", "lost"]
Reply: TypeAlias = Callable[[Any, BaseException | None], None]
"""Takes what a call gave, or why it failed."""


FRESH_S: Final = 1.0
"""Seconds after which an idle actor is asked for a sign of life before it is given groups."""


@final
class Dispatch:
    """A chunk that is out: one epoch, one actor."""

    __slots__ = ("batch", "epoch", "indices", "member", "sent", "weight")

    def __init__(self, epoch: int, batch: Batch, indices: list[int], member: Member, weight: int) -> None:
        self.epoch = epoch
        self.batch = batch
        self.indices = indices
        self.member = member
        self.weight = weight
        self.sent = monotonic()


@final
class Member:
    """An actor with what is out at it. Touched by the dispatcher's thread alone.

    Args:
        number: of the actor in its pool, from 1.
        actor: Ray's handle.
        started: monotonic seconds when it was asked for.
    """

    def __init__(self, number: int, actor: Any, started: float) -> None:
        self.number = number
        self.actor = actor
        self.state: State = "starting"
        self.started = started
        self.out: dict[int, Dispatch] = {}
        """Epoch to dispatch."""
        self.heard = started
        """When it last gave a sign of life."""
        self.asked: float | None = None
        """When it was asked for one, if it has not answered yet."""
        self.alone = False
        """Whether what it runs was lost before with another actor: nothing goes beside it."""
        self.recalling = False
        """Whether it was asked to give back what it has not begun."""
        self.cutting = False
        """Whether it was told to give up what is done and to begin nothing any more."""
        self.idle_since = started
        self.kill_at: float | None = None
        """When one that went silent is killed at the latest."""
        self._ready: Ready | None = None

    @property
    def groups_out(self) -> int:
        """Groups that it has."""
        return sum(len(each.indices) for each in self.out.values())

    def is_fresh(self, now: float) -> bool:
        """Whether it is known to live: an idle actor may have died since it last answered."""
        return bool(self.out) or now - self.heard <= FRESH_S

    def is_ready(self, ready: Ready, now: float) -> None:
        """It answered its order."""
        self._ready = ready
        self.state = "ready"
        self.heard = self.idle_since = now

    def __str__(self) -> str:
        if self._ready is None:
            return f"actor {self.number}"
        ready = self._ready
        return f"actor {self.number} (process {ready.pid} on {ready.host}, node {ready.node[:12]})"


def least_loaded(members: Sequence[Member], most: int, now: float) -> tuple[Member | None, int]:
    """The member to give the next chunk to, of those with less than `most`; and how many take groups at all."""
    best, fewest, count = None, (most, 0), 0
    for member in members:
        chunks = len(member.out)
        if member.cutting or member.alone or (not chunks and now - member.heard > FRESH_S):
            continue
        count += 1
        if chunks > fewest[0] or (best is not None and fewest == (0, 0)):
            continue
        load = (chunks, member.groups_out)
        if load < fewest:
            best, fewest = member, load
    return best, count


def call(ref: Any, post: Callable[[Callable[[], None]], None], reply: Reply) -> None:
    """When the answer of an actor's method is there, let `reply` take it in the dispatcher's thread."""

    def arrived(future: Any) -> None:
        error = future.exception()
        value = None if error is not None else future.result()
        post(lambda: reply(value, error))

    ref.future().add_done_callback(arrived)
