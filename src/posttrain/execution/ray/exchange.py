# SPDX-License-Identifier: Apache-2.0
"""What is out at actors under which epoch, and what is done with what comes back, or does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from time import monotonic
from typing import Any, Final, final

import msgspec

from posttrain.errors import RewardConfigError, RewardContractError, text_of
from posttrain.execution import wire
from posttrain.execution.ray.batch import Batch
from posttrain.execution.ray.loss import Losses
from posttrain.execution.ray.member import Dispatch, Member, call, least_loaded
from posttrain.execution.ray.messages import Answer
from posttrain.execution.ray.pool import Pool
from posttrain.execution.ray.sizing import CHUNK_BYTES, Pace
from posttrain.rewards.stage.prepare import Selection

__all__ = ["Exchange"]

_DEPTH: Final = 2
"""Chunks at one actor: while it works on one, the next is on its way."""
_PATIENCE_S: Final = 0.5
"""Seconds that a chunk may wait behind another while some actor has nothing to do."""
_OUT_BYTES: Final = 8 * CHUNK_BYTES
"""Bytes that are out in all, about: what keeps the driver's memory flat, whatever the batch.

Above it an actor with nothing to do still gets a single group, so that a large pool is never starved by it.
"""


@final
class Exchange:
    """Touched by the dispatcher's thread alone.

    Args:
        pool: the actors.
        selection: the providers.
        limit_s: how long one group may take.
        post: hands a call to the dispatcher's thread.
    """

    def __init__(
        self, pool: Pool, selection: Selection, limit_s: float, post: Callable[[Callable[[], None]], None]
    ) -> None:
        self.late_answers = 0
        """Answers that came after their groups had been given away; they changed nothing."""
        self.pace = Pace()
        self._pool = pool
        self._names = selection.names
        self._limit = limit_s
        self._post = post
        self._losses = Losses(selection)
        self._epochs = count(1)
        self._out: dict[int, Dispatch] = {}
        self._out_bytes = 0
        self._abandoned: dict[int, bool] = {}
        """Epochs whose answers count for nothing; True: another actor got the groups."""

    def give_out(self, batch: Batch) -> bool:
        """Send the batch's next chunk to the least-loaded actor; False when nothing waits or everyone is full."""
        if not batch.waiting:
            return False
        # Nothing queues behind a chunk of which nobody knows how long it takes.
        scarce = self._out_bytes >= _OUT_BYTES
        depth = 1 if self.pace.seconds is None or scarce else _DEPTH
        member, sharers = least_loaded(self._pool.ready(), depth, monotonic())
        if member is None:
            return False
        indices, weight = batch.take(1 if scarce else self.pace.chunk(batch.waiting, sharers))
        if not indices:
            # Only groups that were lost with an actor before are left; each runs alone.
            if member.out or not batch.has_suspects():
                return False
            (indices, weight), member.alone = batch.take_suspect(), True
        self._send(batch, member, indices, weight)
        return True

    def rebalance(self, now: float) -> None:
        """Where one actor has nothing to do, take back from another what waits behind a chunk that takes long."""
        ready = self._pool.ready()
        if all(each.out or not each.is_fresh(now) for each in ready):
            return
        for member in ready:
            first, *queued = sorted(member.out) or [0]
            if queued and not member.recalling and now - member.out[first].sent > _PATIENCE_S:
                member.recalling = True
                call(
                    member.actor.recall.options(concurrency_group="control").remote(queued),
                    self._post,
                    partial(self._recalled, member),
                )

    def _recalled(self, member: Member, epochs: Any, error: BaseException | None) -> None:
        member.recalling = False
        for epoch in [] if error is not None else epochs:
            if (dispatch := self._out.get(epoch)) is not None:
                self._abandon(dispatch, given_away=False)
                dispatch.batch.give_back(dispatch.indices)

    def cancel(self, batch: Batch) -> None:
        """What comes of its chunks counts for nothing, and an actor that has no other is ended: it may take long."""
        for epoch in list(batch.outstanding):
            dispatch = self._out[epoch]
            self._stop(dispatch)
            self._abandon(dispatch, given_away=False)
            if not dispatch.member.out:
                self._pool.retire(dispatch.member, mercy=False)

    def lose(self, member: Member, why: str, *, silent: bool) -> None:
        """The actor is gone, or does not answer: its groups go to others, or can't be scored."""
        for dispatch in list(member.out.values()):
            self._abandon(dispatch, given_away=True)
            groups = [dispatch.batch.groups[index] for index in dispatch.indices]
            ids = [group.group_id for group in groups]
            for index, group in zip(dispatch.indices, groups, strict=True):
                error = self._losses.error(group, member, why, ids)
                dispatch.batch.lost(index, repeatable=self._losses.repeatable, error=error)
        self._pool.retire(member, mercy=silent)

    def salvage(self, member: Member, answers: Sequence[bytes]) -> None:
        """A group took too long: keep what its actor has done, and end the actor."""
        decoded = {each.epoch: each for each in (msgspec.msgpack.decode(it, type=Answer) for it in answers)}
        for dispatch in list(member.out.values()):
            self._abandon(dispatch, given_away=True)
            answer = decoded.get(dispatch.epoch)
            if answer is None:
                dispatch.batch.give_back(dispatch.indices)
            else:
                self._keep(dispatch, answer)
        self._pool.retire(member, mercy=False)

    def _send(self, batch: Batch, member: Member, indices: list[int], weight: int) -> None:
        try:
            payload = bytes(wire.encode_groups([batch.groups[index] for index in indices]))
        except wire.WireError as error:
            failure = RewardContractError(f"a group can't be sent to a reward actor: {error}")
            failure.because_of(error)
            batch.fail(indices[0], failure)
            return
        epoch = next(self._epochs)
        if not member.out:
            member.heard = monotonic()
        member.out[epoch] = self._out[epoch] = Dispatch(epoch, batch, indices, member, weight)
        self._out_bytes += weight
        batch.outstanding.add(epoch)
        answer = member.actor.evaluate.remote(epoch, batch.collect, payload)
        call(answer, self._post, lambda value, error: self._answered(epoch, value, error))

    def _answered(self, epoch: int, value: Any, error: BaseException | None) -> None:
        if epoch in self._abandoned:
            if self._abandoned.pop(epoch) and error is None:
                self.late_answers += 1
            return
        dispatch = self._out[epoch]
        if error is not None:
            self._failed(dispatch, error)
            return
        dispatch.member.heard = dispatch.member.idle_since = monotonic()
        self._release(dispatch)
        self._take(dispatch, value)

    def _take(self, dispatch: Dispatch, value: bytes) -> None:
        batch, indices = dispatch.batch, dispatch.indices
        try:
            answer = msgspec.msgpack.decode(value, type=Answer)
            if answer.epoch != dispatch.epoch:
                raise wire.WireError(f"it answers dispatch {answer.epoch}, expected {dispatch.epoch}")
            outcomes = wire.decode_outcomes(answer.outcomes, [batch.groups[index] for index in indices], self._names)
        except ValueError as error:
            failure = RewardConfigError(f"the answer of {dispatch.member} can't be read: {error}")
            failure.because_of(error)
            batch.fail(indices[0], failure)
            return
        batch.accept(indices, outcomes)
        self.pace.learn(len(indices), answer.seconds)
        for epoch in batch.outstanding:
            # What lies behind a failure is not needed any more: its actor may skip what it has not begun.
            if self._out[epoch].indices[0] > batch.fails_at:
                self._stop(self._out[epoch])

    def _failed(self, dispatch: Dispatch, error: BaseException) -> None:
        import ray

        if not isinstance(error, ray.exceptions.RayTaskError):
            self.lose(dispatch.member, self._losses.reason(error), silent=False)
            return
        failure = RewardConfigError(f"{dispatch.member} could not evaluate its chunk: {text_of(error)}")
        failure.because_of(error)
        dispatch.batch.fail(dispatch.indices[0], failure)
        self._release(dispatch)

    def _keep(self, dispatch: Dispatch, answer: Answer) -> None:
        batch, member, limit = dispatch.batch, dispatch.member, self._limit
        groups = [batch.groups[index] for index in dispatch.indices]
        outcomes = wire.decode_outcomes(answer.outcomes, groups, self._names)
        late = {each.position: each for each in answer.running if each.seconds >= limit}
        for position, (index, outcome) in enumerate(zip(dispatch.indices, outcomes, strict=True)):
            group = groups[position]
            if outcome is None and position in late:
                batch.unavailable(index, self._losses.too_long(group, late[position], member, limit))
            elif outcome is None and position in answer.begun:
                why = f"it was ended because another group took longer than {limit:g} s"
                error = self._losses.error(group, member, why, [group.group_id])
                batch.lost(index, repeatable=self._losses.repeatable, error=error)
            else:
                batch.accept([index], [outcome])

    def _stop(self, dispatch: Dispatch) -> None:
        dispatch.member.actor.stop.options(concurrency_group="control").remote(dispatch.epoch)

    def _abandon(self, dispatch: Dispatch, *, given_away: bool) -> None:
        self._abandoned[dispatch.epoch] = given_away
        self._release(dispatch)

    def _release(self, dispatch: Dispatch) -> None:
        del self._out[dispatch.epoch], dispatch.member.out[dispatch.epoch]
        self._out_bytes -= dispatch.weight
        dispatch.batch.outstanding.discard(dispatch.epoch)
        if not dispatch.member.out:
            dispatch.member.alone = False
