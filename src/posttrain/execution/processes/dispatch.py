# SPDX-License-Identifier: Apache-2.0
"""One call's groups dealt out to workers, in the caller's own thread; what is lost on the way is told apart exactly.

A group is blamed only where its worker had begun it. One that was sent ahead and not begun is given to another worker,
no provider has seen it.
"""

from __future__ import annotations

import selectors
from collections import deque
from collections.abc import Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from math import inf
from time import monotonic
from typing import Final, NamedTuple, final

from posttrain.errors import RewardConfigError, RewardError, RewardUnavailableError, listing
from posttrain.execution.processes.handle import ChildProcess
from posttrain.execution.processes.limits import Limits
from posttrain.execution.processes.messages import GROUP_HEAD, Kind
from posttrain.execution.processes.pool import Pool
from posttrain.execution.processes.worker import Given, Worker
from posttrain.execution.wire import Outcome, WireError, decode_error, decode_outcomes
from posttrain.rewards.stage.bind import BoundGroup

__all__ = ["Call"]

_MEMORY_SECONDS: Final = 0.05
_DEATH_SECONDS: Final = 0.1
_ENDING_SECONDS: Final = 0.3
_FAILED_STARTS: Final = 3


class _Watched(NamedTuple):
    """What stands behind a descriptor of the selector."""

    worker: Worker
    child: ChildProcess
    kind: str


@final
class Call:
    """The groups of one call and the workers that it holds."""

    def __init__(
        self,
        pool: Pool,
        groups: Sequence[BoundGroup],
        names: tuple[str, ...],
        limits: Limits,
        *,
        collect_unavailable: bool,
    ) -> None:
        self._pool = pool
        self._groups = groups
        self._names = names
        self._limits = limits
        self._collect = collect_unavailable
        self._waiting = deque(range(len(groups)))
        self._outcomes: list[Outcome] = [None] * len(groups)
        self._end = len(groups)
        """Place of the first group known to have failed the batch; later ones are not begun any more."""
        self._workers: list[Worker] = []
        self._fruitless = 0
        """Workers that were lost with nothing begun, since one last answered."""
        self._selector = selectors.DefaultSelector()
        self._memory_at = 0.0

    def run(self) -> list[Outcome]:
        """Evaluate everything; after a failure that counts, what is under way ends, and only earlier groups are begun.

        So the failure that the caller finds first is the first of the batch, however the groups were dealt out.

        Raises:
            RewardError: a worker can't be started any more, or the evaluator was closed meanwhile.
        """
        try:
            self._pool.reclaim()
            if self._waiting:
                self._hold(self._pool.take_one())
            while self._waiting or any(worker.given for worker in self._workers):
                if len(self._workers) < len(self._waiting):
                    for worker in self._pool.take_more(len(self._waiting) - len(self._workers)):
                        self._hold(worker)
                self._feed()
                self._look()
            return self._outcomes
        except BaseException:
            # An interrupt does not wait for groups that are under way; their workers are started anew when needed.
            for worker in self._workers:
                if worker.given or not worker.is_ready:
                    worker.stop()
            raise
        finally:
            self._selector.close()
            self._pool.reclaim()

    def open_all(self) -> None:
        """Start every worker of a new pool and wait until all are ready; the first that can't start ends it.

        Raises:
            RewardError: why it can't.
        """
        try:
            for worker in self._pool.take_more(len(self._pool.workers)):
                self._hold(worker)
            while not all(worker.is_ready for worker in self._workers):
                self._look()
        finally:
            self._selector.close()
            self._pool.reclaim()

    def _hold(self, worker: Worker) -> None:
        self._workers.append(worker)
        # One that still has groups was left in the middle of another call.
        if worker.child is None or worker.given or worker.child.has_ended:
            self._start(worker)
        else:
            self._watch(worker)

    def _start(self, worker: Worker) -> None:
        worker.start()
        self._watch(worker)

    def _watch(self, worker: Worker) -> None:
        child = worker.child
        if child is None:
            return
        self._selector.register(child.channel, selectors.EVENT_READ, _Watched(worker, child, "channel"))
        self._write_or_not(worker)
        if child.is_printing:
            self._selector.register(child.printing, selectors.EVENT_READ, _Watched(worker, child, "printing"))
        if child.death is not None:
            self._selector.register(child.death, selectors.EVENT_READ, _Watched(worker, child, "death"))

    def _unwatch(self, child: ChildProcess) -> None:
        for descriptor in (child.channel, child.printing, child.death):
            if descriptor is not None:
                with suppress(KeyError):
                    self._selector.unregister(descriptor)

    def _write_or_not(self, worker: Worker) -> None:
        """Wait for room on the channel exactly where something waits to be sent."""
        if (child := worker.child) is not None:
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if child.has_unsent else 0)
            key = self._selector.get_key(child.channel)
            if key.events != wanted:
                self._selector.modify(child.channel, wanted, key.data)

    def _feed(self) -> None:
        if self._pool.is_wanted and len(self._workers) > 1:
            self._spare(self._workers[-1])
        depth, ready = 0, [worker for worker in self._workers if worker.is_ready]
        if self._pool.is_wanted and len(self._workers) > 1:
            ready = [worker for worker in ready if worker is not self._workers[-1]]
        deepest = max((worker.room for worker in ready), default=0)
        while self._waiting and depth < deepest:
            depth += 1
            for worker in ready:
                if self._waiting and len(worker.given) < depth <= worker.room:
                    self._give(worker)

    def _give(self, worker: Worker) -> None:
        place = self._waiting.popleft()
        try:
            worker.give(place, self._groups[place], collect_unavailable=self._collect)
        except WireError as error:
            failure = RewardConfigError(f"the group can't be evaluated in another process: {error}")
            failure.group_id = self._groups[place].group_id
            self._settle(place, failure)
            return
        self._write_or_not(worker)

    def _spare(self, worker: Worker) -> None:
        """Let another thread have a worker as soon as it has no group of this call."""
        if worker.is_ready and not worker.given and worker.child is not None:
            self._unwatch(worker.child)
            self._workers.remove(worker)
            self._pool.give_back([worker])

    def _look(self) -> None:
        """Wait until something happens or is due, and deal with it."""
        for key, events in self._selector.select(self._patience()):
            watched: _Watched = key.data
            if watched.worker.child is not watched.child:
                continue  # it was replaced a moment ago
            if watched.kind == "printing":
                self._print(watched.child)
            elif watched.kind == "death":
                self._read_all(watched.worker, watched.child)
            else:
                if events & selectors.EVENT_WRITE:
                    watched.child.flush()
                    self._write_or_not(watched.worker)
                if events & selectors.EVENT_READ:
                    self._read(watched.worker, watched.child)
        self._judge()

    def _patience(self) -> float | None:
        """Seconds until something has to be looked at; None: nothing has."""
        now = monotonic()
        until = min((worker.due - now for worker in self._workers if worker.child is not None), default=inf)
        if self._limits.memory_limit_mib is not None and any(worker.given for worker in self._workers):
            until = min(until, self._memory_at + _MEMORY_SECONDS - now)
        if any(worker.child is not None and worker.child.death is None for worker in self._workers):
            until = min(until, _DEATH_SECONDS)
        return None if until == inf else max(0.0, until)

    def _print(self, child: ChildProcess) -> None:
        child.read_printed()
        if not child.is_printing:
            self._selector.unregister(child.printing)

    def _read_all(self, worker: Worker, child: ChildProcess) -> None:
        """Of a child that has ended: what it said at last, then the end itself."""
        self._read(worker, child)
        if worker.child is child:
            self._lost(worker, None)

    def _read(self, worker: Worker, child: ChildProcess) -> None:
        try:
            for kind, payload in worker.messages():
                if kind == Kind.READY:
                    worker.is_ready = True
                elif kind == Kind.REFUSED:
                    self._refused(worker, decode_error(payload))
                    return
                else:
                    self._answer(worker, kind, payload)
        except WireError as error:
            self._lost(worker, f"wrote what can't be read and was killed: {error}")
            return
        if child.is_hung_up:
            # Mostly because it ended, which takes a moment more.
            child.await_end(_ENDING_SECONDS)
            self._lost(worker, None if child.has_ended else "closed the channel that answers come on, and was killed")

    def _answer(self, worker: Worker, kind: int, payload: bytes) -> None:
        if kind != Kind.ANSWER or not worker.given or len(payload) < GROUP_HEAD.size:
            raise WireError(f"a message of kind {kind} came where none is due")
        number, _ = GROUP_HEAD.unpack_from(payload)
        if number != worker.given[0].number:
            raise WireError(f"the answer to group number {number} came where {worker.given[0].number} is due")
        group = self._groups[worker.given[0].place]
        (outcome,) = decode_outcomes(memoryview(payload)[GROUP_HEAD.size :], [group], self._names)
        self._fruitless = 0
        self._settle(worker.answered().place, outcome)

    def _settle(self, place: int, outcome: Outcome) -> None:
        self._outcomes[place] = outcome
        if outcome is None and place < self._end:
            self._waiting.appendleft(place)  # it stood behind one that was cancelled
        counts = isinstance(outcome, (RewardError, CancelledError)) and not (
            self._collect and isinstance(outcome, RewardUnavailableError)
        )
        if counts and place < self._end:
            self._end = place
            self._waiting = deque(each for each in self._waiting if each < place)
            for worker in self._workers:
                worker.cancel(place)

    def _judge(self) -> None:
        """End the workers whose time is up or that grew too large."""
        now = monotonic()
        for worker in list(self._workers):
            if worker.child is None:
                continue
            if worker.child.death is None and worker.child.has_ended:
                self._read_all(worker, worker.child)
            elif worker.due <= now:
                # It may have answered since: then there is nothing to judge any more.
                self._read(worker, worker.child)
                if worker.child is not None and worker.due <= now:
                    self._too_slow(worker, worker.child)
        limit = self._limits.memory_limit_mib
        if limit is not None and now >= self._memory_at + _MEMORY_SECONDS:
            self._memory_at = now
            for worker in list(self._workers):
                if worker.given and worker.child is not None and (size := worker.resident_mib()) > limit:
                    why = f"grew to {size:.0f} MiB, past memory_limit_mib={limit}, and was killed"
                    self._lost(worker, why, MemoryError(f"past {limit} MiB"))

    def _too_slow(self, worker: Worker, child: ChildProcess) -> None:
        # It may end of being asked, or answer at the very last; too slow it was all the same.
        child.ask_where()
        if worker.is_ready:
            seconds = self._limits.group_timeout_s
            why = f"did not score the group within {seconds:g} s (group_timeout_s) and was killed"
        else:
            seconds = self._limits.start_timeout_s
            why = f"was not ready within {seconds:g} s (start_timeout_s) and was killed, after it had {worker.step}"
        self._lost(worker, why, TimeoutError(f"no answer within {seconds:g} s"))

    def _lost(self, worker: Worker, why: str | None, cause: Exception | None = None) -> None:
        """A worker is gone, or has to go: tell apart what it took with it, and replace it."""
        child = worker.child
        if child is None:
            return
        was_ready, answered = worker.is_ready, self._last_answers(worker, child)
        given = list(worker.given)
        step, begun, at = worker.step, worker.begun, worker.at
        self._unwatch(child)
        ended = worker.stop()
        why = why or f"{ended}{'' if was_ready else f', after it had {step}'}"
        cause = cause or ChildProcessError(ended)
        last = child.printed.last_lines
        told = f"{worker.name} {why}" + (f"\nThe last that it printed:\n{listing(last)}" if last else "")
        # It is dead and all that it answered is read, so of the rest it had at most one in its hands.
        blamed = [each for each in given if each.number <= begun]
        if was_ready and given and not (blamed or answered) and isinstance(cause, TimeoutError):
            blamed = given[:1]
        self._waiting.extendleft(
            each.place for each in reversed(given) if each not in blamed and each.place < self._end
        )
        for each in blamed:
            self._blame(each, at, told, cause)
        if self._pool.is_closing:
            raise RewardUnavailableError("the evaluator was closed while groups were evaluated on it")
        if not blamed:
            self._count_fruitless(RewardConfigError(told), cause)
        self._pool.restarts += 1
        self._start(worker)

    def _last_answers(self, worker: Worker, child: ChildProcess) -> bool:
        """End a child and take in what it still answered; whether that was anything.

        One that is at work may answer a group and begin the next in the moment before it is killed.
        """
        child.kill()
        child.await_end(_ENDING_SECONDS)
        before = len(worker.given)
        with suppress(WireError):  # of one that writes garbage there is no more to be read
            for kind, payload in worker.messages() if worker.is_ready else ():
                self._answer(worker, kind, payload)
        return len(worker.given) < before

    def _blame(self, given: Given, at: tuple[int, int], told: str, cause: Exception) -> None:
        group, (provider, candidate) = self._groups[given.place], at
        provider = provider if 0 <= provider < len(self._names) else 0
        error = RewardUnavailableError(told, provider=self._names[provider], group_id=group.group_id)
        if 0 <= candidate < len(group.trajectory_ids):
            error.trajectory_id = group.trajectory_ids[candidate]
        error.because_of(cause)
        error.request = group.requests[provider]
        self._settle(given.place, error)

    def _refused(self, worker: Worker, error: RewardError) -> None:
        """A worker says why it can't start: a wrong set-up stays wrong, an outside service may come back."""
        if (child := worker.child) is not None:
            self._unwatch(child)
        worker.stop()
        error.add_note(f"while {worker.name} started")
        if not isinstance(error, RewardUnavailableError):
            raise error
        self._count_fruitless(error, error)
        self._start(worker)

    def _count_fruitless(self, error: RewardError, cause: Exception) -> None:
        """Count a worker that was lost and had begun nothing: the first of a new pool is one too many, later three."""
        self._fruitless += 1
        if self._fruitless < _FAILED_STARTS and self._groups:
            return
        if error is not cause:
            error.because_of(cause)
            error.add_note(f"{self._fruitless} workers in a row were lost before they evaluated anything")
        raise error
