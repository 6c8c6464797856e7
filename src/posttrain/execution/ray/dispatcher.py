# SPDX-License-Identifier: Apache-2.0
"""The thread that keeps actors busy with the groups of every `evaluate` call: one state machine, no locks.

Everything that happens (a batch comes, an answer arrives, an actor is ready) is a call that is put into an inbox and
made by this one thread. After each it looks at what is due, gives out what it can and waits for the next.
docs/design/023-ray.md says why.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Final, final

from posttrain.errors import RewardError, RewardUnavailableError, text_of
from posttrain.execution import wire
from posttrain.execution.ray.batch import Batch
from posttrain.execution.ray.cluster import Cluster, import_ray
from posttrain.execution.ray.exchange import Exchange
from posttrain.execution.ray.member import Member
from posttrain.execution.ray.messages import Order
from posttrain.execution.ray.pool import Pool
from posttrain.execution.ray.settings import RaySettings
from posttrain.execution.ray.watch import Watch
from posttrain.rewards.stage.prepare import Selection

__all__ = ["Dispatcher"]

_TICK_S: Final = 0.5
"""Longest wait while something is under way."""
_LOOK_S: Final = 0.02
"""Seconds between two looks at what does not hurry: who is late, silent or idle. It takes longer in a large pool."""
_CLOSE_S: Final = 10.0
"""Seconds that actors have to close their providers."""


@final
class Dispatcher:
    """Runs from `open` to `close` of its evaluator, or until Ray is gone.

    Args:
        cluster: where the actors run.
        settings: of the pool.
        selection: what they evaluate.
        order: what each actor is told.
    """

    def __init__(self, cluster: Cluster, settings: RaySettings, selection: Selection, order: Order) -> None:
        self._settings = settings
        self._cluster = cluster
        self._inbox: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._pool = Pool(cluster, settings, order, self._inbox.put)
        self._exchange = Exchange(self._pool, selection, settings.group_timeout_s, self._inbox.put)
        self._watch = Watch(
            self._pool, settings.group_timeout_s, self._inbox.put, self._exchange.lose, self._exchange.salvage
        )
        self._batches: list[Batch] = []
        self._opening: Future[None] | None = Future()
        self._closing: Future[list[RewardError]] | None = None
        self._leaving: list[Member] = []
        self._close_errors: list[RewardError] = []
        self._close_due = 0.0
        self._looked = 0.0
        self._look_soon = True
        self._over: RewardError | None = None
        self._thread = threading.Thread(target=self._run, name="posttrain-ray", daemon=True)

    @property
    def is_over(self) -> bool:
        """Whether it has ended, by itself or by `close`: a new one is needed then."""
        return self._over is not None

    @property
    def actors(self) -> int:
        """Actors that take groups right now."""
        return len(self._pool.ready())

    @property
    def late_answers(self) -> int:
        """See `Exchange.late_answers`."""
        return self._exchange.late_answers

    def open(self) -> None:
        """Start the actors, and wait until the least number is ready."""
        opening = self._opening
        self._thread.start()
        if opening is not None:
            opening.result()

    def submit(self, batch: Batch) -> None:
        """Give the batch's groups out; its `done` tells when it is over."""
        self._inbox.put(lambda: self._accept(batch))
        if self._over is not None:
            batch.end(self._over)

    def cancel(self, batch: Batch) -> None:
        """Give out no more of it; its caller waits no longer."""
        self._inbox.put(lambda: self._cancel(batch))

    def close(self) -> list[RewardError]:
        """Close the providers of every actor, then end the actors; gives what failed at that. Bounded."""
        closing: Future[list[RewardError]] = Future()
        self._inbox.put(lambda: self._close(closing))
        self._thread.join(timeout=3 * _CLOSE_S)
        if closing.done():
            return closing.result()
        if self._thread.is_alive():
            return [RewardUnavailableError(f"the Ray backend did not close within {3 * _CLOSE_S:g} s")]
        return []

    def _run(self) -> None:
        try:
            self._pool.fill()
            while self._over is None:
                self._listen()
                if self._over is None:
                    self._step()
        except (RewardError, import_ray().exceptions.RayError) as error:
            self._end(self._failure_of(error))
        except Exception as error:
            self._end(self._failure_of(error))
            raise
        finally:
            # Nobody waits for ever: what was put in meanwhile is made too, and finds it ended.
            self._drain()

    def _listen(self) -> None:
        try:
            self._inbox.get(timeout=self._patience())()
        except Empty:
            return
        self._drain()

    def _drain(self) -> None:
        while True:
            try:
                event = self._inbox.get_nowait()
            except Empty:
                return
            event()

    def _patience(self) -> float | None:
        due = self._pool.next_due(monotonic())
        if self._look_soon and self._closing is None:
            return 0.0
        if self._batches or self._opening is not None or self._closing is not None:
            return min(_TICK_S, self._watch.beat_s, due or _TICK_S)
        return due

    def _step(self) -> None:
        now = monotonic()
        if not self._cluster.is_up():
            raise RewardUnavailableError(
                "Ray was shut down, or connected anew, by other code of this process while reward actors were in use"
            )
        if self._closing is not None:
            self._see_closed(now)
            return
        looks = self._look_soon or now - self._looked >= _LOOK_S
        if looks:
            self._look_soon, self._looked = False, now
            self._pool.tend(now, busy=bool(self._batches))
            self._watch.look(now, waiting=bool(self._batches))
        if self._pool.failure is not None:
            self._fail(self._pool.failure)
            self._pool.forgive()
        if self._opening is not None and len(self._pool.ready()) >= self._settings.min_actors:
            opening, self._opening = self._opening, None
            opening.set_result(None)
        if self._batches:
            self._pool.fill()
            while any(list(map(self._exchange.give_out, self._batches))):
                pass
            if looks:
                self._exchange.rebalance(now)
                self._grow()
        ended = [batch for batch in self._batches if batch.settle()]
        if ended:
            self._batches = [batch for batch in self._batches if batch not in ended]
            self._look_soon = True

    def _accept(self, batch: Batch) -> None:
        if self._over is not None:
            batch.end(self._over)
        else:
            self._batches.append(batch)
            self._look_soon = True

    def _cancel(self, batch: Batch) -> None:
        if batch in self._batches:
            self._exchange.cancel(batch)
            batch.end(RewardUnavailableError("the call was interrupted"))

    def _grow(self) -> None:
        """More actors where the backlog would keep those that are there busy for longer than a start takes."""
        pool = self._pool
        ready, waiting = len(pool.ready()), sum(batch.waiting for batch in self._batches)
        if pool.wanted >= self._settings.most or pool.starting() or not ready or not waiting:
            return
        backlog = self._exchange.pace.backlog(waiting, ready)
        if backlog is not None and backlog > max(0.5, pool.start_s):
            useful = int(backlog / max(0.5, pool.start_s)) * ready
            pool.wanted = min(self._settings.most, 2 * ready, max(ready + 1, useful), ready + waiting)
            pool.fill()

    def _fail(self, failure: RewardError) -> None:
        """No actor can be started: whoever waits for one is told."""
        if self._opening is not None:
            opening, self._opening = self._opening, None
            opening.set_exception(failure)
        for batch in self._batches:
            self._exchange.cancel(batch)
            batch.end(failure)
        self._batches = []

    def _close(self, closing: Future[list[RewardError]]) -> None:
        if self._over is None and not self._cluster.is_up():
            self._end(RewardUnavailableError("Ray was shut down by other code of this process"))
        if self._over is not None:
            closing.set_result([])
            return
        self._fail(RewardUnavailableError("the evaluator was closed while it was in use"))
        self._closing, self._close_due = closing, monotonic() + _CLOSE_S
        self._leaving = self._pool.close_all(self._closed)

    def _closed(self, member: Member, value: Any, error: BaseException | None) -> None:
        self._leaving = [each for each in self._leaving if each is not member]
        if value is not None:
            failure = wire.decode_error(value)
            failure.add_note(f"in {member}")
            self._close_errors.append(failure)
        elif error is not None:
            failure = RewardUnavailableError(f"{member} died while it closed its providers: {text_of(error)}")
            failure.because_of(error)
            self._close_errors.append(failure)
        self._pool.kill(member)

    def _see_closed(self, now: float) -> None:
        if self._leaving and now < self._close_due:
            return
        for member in list(self._leaving):
            self._close_errors.append(
                RewardUnavailableError(f"{member} did not close its providers within {_CLOSE_S:g} s and was killed")
            )
            self._pool.kill(member)
        closing, self._closing = self._closing, None
        self._end(RewardUnavailableError("the evaluator is closed"))
        if closing is not None:
            closing.set_result(self._close_errors)

    def _failure_of(self, error: Exception) -> RewardError:
        if isinstance(error, RewardError):
            return error
        failure = RewardUnavailableError(f"the Ray backend failed: {type(error).__name__}: {text_of(error)}")
        failure.because_of(error)
        return failure

    def _end(self, failure: RewardError) -> None:
        self._over = failure
        if self._opening is not None:
            self._opening.set_exception(failure)
        for batch in self._batches:
            batch.end(failure)
        if self._closing is not None:
            self._closing.set_result([])
        self._batches, self._opening, self._closing = [], None, None
        for member in list(self._pool.members):
            self._pool.kill(member)
