# SPDX-License-Identifier: Apache-2.0
"""A place in the pool: one child process at a time, what it was given, and whether its time is up."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from math import inf
from time import monotonic
from typing import Final, NamedTuple, final

from posttrain.execution.processes.board import Board
from posttrain.execution.processes.handle import ChildProcess
from posttrain.execution.processes.limits import Limits
from posttrain.execution.processes.memory import resident_bytes
from posttrain.execution.processes.messages import GROUP_HEAD, STEPS, Kind
from posttrain.execution.wire import encode_groups, frame_header
from posttrain.rewards.stage.bind import BoundGroup

__all__ = ["Given", "Worker"]

_MODULE: Final = "posttrain.execution.processes.child"
_AHEAD: Final = ((0.002, 4), (0.02, 2))
"""A worker whose last group took less than these seconds is given so many at once, that it need not wait for the next.

It still evaluates them one after the other, and those that it has not begun are given to another if it is lost.
"""


class Given(NamedTuple):
    """A group that a worker was given and has not answered yet."""

    number: int
    """Counted from 1 for each child."""
    place: int
    """Of the group in its batch."""


@final
class Worker:
    """One of the pool's workers. Only the thread that holds it may touch it, but for `child.kill`."""

    def __init__(self, number: int, start: bytes, limits: Limits) -> None:
        self.name = f"reward worker {number}"
        self.owner: threading.Thread | None = None
        """The thread that holds it; None: it is free."""
        self.child: ChildProcess | None = None
        self.is_ready = False
        self.given: deque[Given] = deque()
        self._start = start
        self._limits = limits
        self._count = 0
        self._since = 0.0
        self._pace = inf
        self._is_cancelling = False

    def start(self) -> ChildProcess:
        """Begin with a new child, in place of one that may be there."""
        self.stop()
        self._count, self._pace, self.is_ready, self._is_cancelling = 0, inf, False, False
        child = self.child = ChildProcess(_MODULE, name=self.name)
        self._since = monotonic()
        child.send(Kind.START, self._start)
        return child

    def stop(self) -> str:
        """End the child, if there is one; gives how it ended."""
        child, self.is_ready = self.child, False
        how = "" if child is None else child.end()
        self.child = None
        self.given.clear()
        return how

    @property
    def room(self) -> int:
        """How many groups it may hold at once."""
        if self._is_cancelling and self.given:
            return 0  # a new group would be skipped with the cancelled ones
        return next((depth for seconds, depth in _AHEAD if self._pace < seconds), 1)

    def give(self, place: int, group: BoundGroup, *, collect_unavailable: bool) -> None:
        """Send one group.

        Raises:
            WireError: the group can't be sent.
        """
        payload = encode_groups([group])
        frame_header(Kind.GROUP, GROUP_HEAD.size + len(payload))  # refused here, before it counts as given
        if self._is_cancelling:
            self._living.board.cells[Board.CANCELLED], self._is_cancelling = 0, False
        self._count += 1
        if not self.given:
            self._since = monotonic()
        self.given.append(Given(self._count, place))
        self._living.send(Kind.GROUP, GROUP_HEAD.pack(self._count, collect_unavailable), payload)

    def answered(self) -> Given:
        """Take the oldest of the given groups off the list: its answer has come."""
        now = monotonic()
        self._pace, self._since = now - self._since, now
        return self.given.popleft()

    def cancel(self, beyond: int) -> None:
        """Let what was given and not begun be skipped, from the first group that stands beyond that place on."""
        first = next((given.number for given in self.given if given.place > beyond), None)
        if first is not None:
            self._is_cancelling = True
            self._living.board.cells[Board.CANCELLED] = first

    def messages(self) -> Iterator[tuple[int, bytes]]:
        """What the child said by now.

        Raises:
            WireError: it wrote what is no message.
        """
        return self._living.receive()

    # A scorer that writes wherever it can may have hit the board too, so nothing that stands there is taken on trust.

    @property
    def begun(self) -> int:
        """Number of the group that the child began last."""
        begun = self._living.board.cells[Board.STARTED]
        if 0 <= begun <= self._count:
            return begun
        return self.given[0].number if self.given else self._count

    @property
    def at(self) -> tuple[int, int]:
        """Index of the provider that the child is at, and of the candidate; either may be out of range: unknown."""
        cells = self._living.board.cells
        return cells[Board.PROVIDER], cells[Board.CANDIDATE] - 1

    @property
    def step(self) -> str:
        """What the child had done when it was last heard of while it started."""
        step = self._living.board.cells[Board.PROVIDER]
        return STEPS[step] if 0 <= step < len(STEPS) else "got somewhere"

    @property
    def due(self) -> float:
        """When its time is up, on the monotonic clock; infinity where it has nothing to do.

        A group's time counts from when the child began it; where it has not taken one up, from when it could have.
        """
        if not self.is_ready:
            return self._since + self._limits.start_timeout_s
        if not self.given:
            return inf
        since = self._since
        if self.begun >= self.given[0].number:
            # Never later than it could have begun, whatever a scorer writes there.
            since = min(since, self._living.board.cells[Board.SINCE] / 1e9)
        return since + self._limits.group_timeout_s

    def resident_mib(self) -> float:
        """Memory of the child and what it started."""
        return resident_bytes(self._living.pid) / (1 << 20)

    @property
    def _living(self) -> ChildProcess:
        if self.child is None:
            raise RuntimeError(f"{self.name} has no process")  # a slip in here, never a user's
        return self.child
