# SPDX-License-Identifier: Apache-2.0
"""`RankExchange`: ranks meet at numbered steps, each with a record that says ok or error, and leave with one verdict.

No rank can hang here for longer than the bound, and all of them learn the same thing. The decision of a step is one
key that is written once: whoever first sees all records writes "all here", whoever first runs out of time writes who
is missing, whoever is interrupted writes that it left. The others, late ones included, follow what stands there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NoReturn, ParamSpec, TypeVar, final

from posttrain.errors import RewardConfigError, RewardContractError, RewardError, RewardUnavailableError, describe
from posttrain.execution.ranks.failure import Failure, as_failure, converged
from posttrain.execution.ranks.plain import Plain, from_bytes, to_bytes
from posttrain.execution.ranks.store import MemoryStore, RankStore
from posttrain.rewards.metrics.real import as_real

__all__ = ["RankExchange", "checked_bound"]

P = ParamSpec("P")
T = TypeVar("T")

_PART = 4 * 2**20
"""Bytes under one key; torch's TCP store takes no value above 8 MiB."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.0002, 0.02
"""Seconds between two looks at the store."""

_ALL_HERE = json.dumps({"all_here": True})


@final
class RankExchange:
    """One rank's place in the exchange between all of them.

    Args:
        store: what they meet at; None: this is the only rank.
        rank: this one's number, from 0.
        world_size: how many there are.
        timeout_s: seconds that a rank waits for the others at one step. It has to cover the longest time by which one
            rank's rewards may take longer than another's. A rank that does not come in time is named and ends the run.

    Raises:
        RewardConfigError: the numbers do not fit each other.
    """

    def __init__(
        self, store: RankStore | None = None, *, rank: int = 0, world_size: int = 1, timeout_s: float = 600.0
    ) -> None:
        if type(rank) is not int or type(world_size) is not int or not 0 <= rank < world_size:
            raise RewardConfigError(
                f"a rank is an int from 0 to world_size - 1, got rank {describe(rank)} of {describe(world_size)}"
            )
        if store is None and world_size > 1:
            raise RewardConfigError(f"{world_size} ranks need a store to meet at, got None")
        self._store: RankStore = MemoryStore() if store is None else store
        self.rank = rank
        self.world_size = world_size
        self.timeout_s = checked_bound(timeout_s)
        self.steps = 0
        """Steps that this rank has reached."""
        self.broken: str | None = None
        """Why the exchange can't be used any more; None: it can."""
        self.raised: Exception | None = None
        """The last error that all ranks raise alike: whoever catches it need not tell the others."""
        self.agreed = False
        """Whether the last step ended with every record there; stays readable when an interrupt came on top."""

    def swap(self, step: str, payload: Plain) -> list[Any]:
        """Give this rank's payload, get every rank's, in rank order.

        Raises:
            RewardError: some rank failed at this step, or did not come: the same error on every rank.
        """
        return self._meet(step, {"step": step, "payload": payload}, None)

    def fail(self, step: str, error: Exception) -> NoReturn:
        """Come to a step with a failure: every rank raises the same error for it, this one too.

        Raises:
            RewardError: always.
        """
        if self.world_size == 1:
            self.raised = error
            raise error
        self._meet(step, {"step": step, "failure": as_failure(error)}, error)
        raise AssertionError("a step with a failure always raises")  # pragma: no cover

    def leave(self, error: BaseException) -> None:
        """Tell the others, without waiting, that this rank goes away; the caller raises `error` afterwards.

        `agreed` then says whether the step in progress had ended well for everybody before that.
        """
        if self.broken is not None:
            return
        name = type(error).__name__
        verdict = json.dumps({"left": self.rank, "because": name})
        with suppress(RewardUnavailableError):  # the store is gone: `broken` says so, and the interrupt matters more
            now = max(self.steps, 1)
            stands = self._ask(self._store.compare_set, f"{now}/verdict", "", verdict)
            self.agreed = stands == _ALL_HERE.encode() and self.steps == now and self._ended_well()
            if stands == _ALL_HERE.encode():
                # Everybody came to that step; they will look at the next one.
                self._ask(self._store.compare_set, f"{now + 1}/verdict", "", verdict)
        self.broken = self.broken or f"rank {self.rank} left it: {name}"

    def _ended_well(self) -> bool:
        return not any("failure" in self._record(rank) for rank in range(self.world_size))

    def _meet(self, step: str, record: dict[str, Any], own: Exception | None) -> list[Any]:
        if self.broken is not None:
            raise RewardUnavailableError(
                f"the exchange between the ranks broke before: {self.broken}. Start them again."
            )
        self.agreed = False
        self.raised = None
        self.steps += 1
        try:
            self._publish(to_bytes(record))
            verdict = json.loads(self._wait())
            here = [rank for rank in range(self.world_size) if rank not in verdict.get("missing", ())]
            records = {} if "left" in verdict else {rank: self._record(rank) for rank in here}
            if verdict.get("all_here"):
                self._forget()
        except RewardError:
            raise
        except BaseException as error:
            self.leave(error)
            raise
        common = self._error(step, verdict, records)
        if common is None:
            self.agreed = True
            return [records[rank]["payload"] for rank in here]
        common.request = getattr(own, "request", None)
        self.raised = common
        raise common from own

    def _publish(self, data: bytes) -> None:
        starts = range(0, len(data), _PART)
        for number, start in enumerate(starts):
            self._ask(self._store.set, self._key(self.rank, number), data[start : start + _PART])
        # The number of parts is written last: who sees it can read them all.
        self._ask(self._store.set, self._key(self.rank), str(len(starts)).encode())

    def _wait(self) -> bytes:
        """The verdict of this step, which this rank may be the one to write."""
        begun = time.monotonic()
        pause = _FIRST_PAUSE
        keys = [self._key(rank) for rank in range(self.world_size)]
        verdict = f"{self.steps}/verdict"
        while not self._ask(self._store.check, keys):
            if self._ask(self._store.check, [verdict]):
                return self._ask(self._store.get, verdict)
            # Read anew each time: a handler of SIGTERM may shorten the bound while this rank waits.
            if time.monotonic() >= begun + self.timeout_s:
                missing = [rank for rank, key in enumerate(keys) if not self._ask(self._store.check, [key])]
                if missing:
                    gone = json.dumps({"missing": missing, "after": self.timeout_s})
                    return self._ask(self._store.compare_set, verdict, "", gone)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        return self._ask(self._store.compare_set, verdict, "", _ALL_HERE)

    def _record(self, rank: int) -> dict[str, Any]:
        count = int(self._ask(self._store.get, self._key(rank)))
        record: dict[str, Any] = from_bytes(
            b"".join([self._ask(self._store.get, self._key(rank, number)) for number in range(count)])
        )
        return record

    def _forget(self) -> None:
        """Remove this rank's record of the step before: everybody has read it, since everybody came to this one.

        Where somebody did not come, it stays: a rank that wakes late may still be reading it.
        """
        before = self.steps - 1
        if before < 1:
            return
        key = self._key(self.rank, step=before)
        for number in range(int(self._ask(self._store.get, key))):
            self._ask(self._store.delete_key, self._key(self.rank, number, step=before))
        self._ask(self._store.delete_key, key)
        if self.rank == 0 and before > 1:
            # One step later still: a rank that is interrupted looks at the verdict of its last step.
            self._ask(self._store.delete_key, f"{before - 1}/verdict")

    def _error(self, step: str, verdict: dict[str, Any], records: dict[int, dict[str, Any]]) -> RewardError | None:
        failures: dict[int, Failure] = {rank: it["failure"] for rank, it in records.items() if "failure" in it}
        if "left" in verdict:
            self.broken = f"rank {verdict['left']} left at the step {step!r}: {verdict['because']}"
            return RewardUnavailableError(f"rank {verdict['left']}: went away because of {verdict['because']}")
        if missing := verdict.get("missing"):
            self.broken = f"{_ranks(missing)} did not come to the step {step!r}"
            text = f"{self.broken} within {verdict['after']:g} s: hung or dead"
            error: RewardError = RewardUnavailableError(text)
            if failures:
                error = converged(failures, self.world_size)
                error.args = (f"{error.message}\nBesides, {text}",)
            return error
        if failures:
            return converged(failures, self.world_size)
        names = {rank: it["step"] for rank, it in records.items()}
        if len(set(names.values())) > 1:
            lines = ", ".join(f"rank {rank} at {name!r}" for rank, name in names.items())
            self.broken = f"the ranks are out of step: {lines}"
            return RewardContractError(f"{self.broken}. Every rank has to make the same calls in the same order.")
        return None

    def _key(self, rank: int, part: int | None = None, *, step: int | None = None) -> str:
        base = f"{self.steps if step is None else step}/{rank}"
        return base if part is None else f"{base}/{part}"

    def _ask(self, call: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """A call to the store. One that fails means that whoever holds the store is gone."""
        try:
            return call(*arguments, **options)
        except (RuntimeError, OSError) as error:
            self.broken = (
                f"rank {self.rank} can't reach the store where the ranks meet (rank 0 or the launcher holds it)"
            )
            lost = RewardUnavailableError(f"{self.broken}: {error}".partition("\n")[0])
            lost.because_of(error)
            self.raised = lost
            raise lost from error


def checked_bound(timeout_s: object) -> float:
    """The bound as a float.

    Raises:
        RewardConfigError: it is no number of seconds above 0.
    """
    seconds = as_real(timeout_s)
    if seconds is None or seconds <= 0:
        raise RewardConfigError(f"timeout_s: expected seconds above 0, got {describe(timeout_s)}")
    return seconds


def _ranks(ranks: Iterable[int]) -> str:
    numbers = [str(rank) for rank in ranks]
    return f"rank {numbers[0]}" if len(numbers) == 1 else f"ranks {', '.join(numbers)}"
