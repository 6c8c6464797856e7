# SPDX-License-Identifier: Apache-2.0
"""Groups in flight overlap up to the bound, and no thread outlives a batch."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from posttrain.errors import RewardContractError
from posttrain.rewards import ProviderExecution, RewardGroupRequest, RewardGroupResult, RewardProviderSpec, RewardWorker
from posttrain.schema import Trajectory

Batch = Callable[..., list[Trajectory]]
Spec = Callable[..., RewardProviderSpec]
ReadOff = Callable[..., RewardGroupResult]
State = Callable[..., list[tuple[int, str, str]]]

PATIENCE = 30.0
"""Seconds after which a wait has failed; none of them is waited for when the tests pass."""


def _threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("posttrain-")]


def _all_end() -> bool:
    for thread in _threads():
        thread.join(PATIENCE)
    return not _threads()


def _groups(count: int) -> dict[str, list[float]]:
    return {f"g{number}": [0.0, 1.0] for number in range(count)}


@pytest.fixture
def pooled(spec_of: Spec, read_off: ReadOff) -> Callable[..., RewardWorker]:
    """A worker of one provider that does something before it reads its scores off."""

    def make(
        before: Callable[[RewardGroupRequest], object], declared: int, configured: int | None = None
    ) -> RewardWorker:
        def evaluate(request: RewardGroupRequest) -> Any:
            before(request)
            return read_off(request, "task")

        execution = ProviderExecution(groups_in_flight=declared)
        catalog = {"p": spec_of("task", evaluate=evaluate, execution=execution)}
        return RewardWorker(catalog=catalog, reward="p", group_size=2, groups_in_flight=configured)

    return make


Pooled = Callable[..., RewardWorker]


@pytest.mark.parametrize(("declared", "configured", "most"), [(3, None, 3), (3, 2, 2), (2, 5, 2), (4, 4, 4)])
def test_groups_overlap_up_to_the_bound(
    pooled: Pooled, batch_of: Batch, declared: int, configured: int | None, most: int
) -> None:
    """As many groups as the smaller of what is declared and configured are in flight at once, and never more."""
    # Each call waits until all of its round are in flight; with fewer threads it would wait in vain.
    barrier, lock = threading.Barrier(most, timeout=PATIENCE), threading.Lock()
    running, peak, threads = 0, 0, set()

    def meet(request: RewardGroupRequest) -> None:
        nonlocal running, peak
        with lock:
            running += 1
            peak = max(peak, running)
            threads.add(threading.get_ident())
        barrier.wait()
        with lock:
            running -= 1

    worker = pooled(meet, declared, configured)
    batch = batch_of(_groups(3 * most))
    worker.score(batch)
    assert peak == most
    assert len(threads) == most
    assert threading.get_ident() not in threads
    assert all(each.reward["final"] == float(each.trajectory_id[-1]) for each in batch)
    assert not _threads()


@pytest.mark.parametrize(("declared", "configured"), [(1, None), (1, 4), (3, 1)])
def test_one_group_in_flight_stays_in_the_callers_thread(
    pooled: Pooled, batch_of: Batch, declared: int, configured: int | None
) -> None:
    """A provider that declares one group is never called from another thread, whatever the config says."""
    threads = []
    worker = pooled(lambda request: threads.append(threading.get_ident()), declared, configured)
    worker.score(batch_of(_groups(6)))
    assert threads == [threading.get_ident()] * 6


def test_a_waiting_provider_overlaps_with_one_in_the_callers_thread(
    spec_of: Spec, read_off: ReadOff, batch_of: Batch
) -> None:
    """While a provider of many groups waits, one of a single group works in the caller's thread, group after group."""
    done = threading.Event()
    callers = []

    def wait(request: RewardGroupRequest) -> Any:
        assert done.wait(PATIENCE)
        return read_off(request, "slow")

    def work(request: RewardGroupRequest) -> Any:
        callers.append((threading.get_ident(), request.group_id))
        if request.group_id == "g3":
            done.set()
        return read_off(request, "quick")

    catalog = {
        "slow": spec_of("slow", evaluate=wait, execution=ProviderExecution(groups_in_flight=2)),
        "quick": spec_of("quick", evaluate=work),
    }
    worker = RewardWorker(catalog=catalog, reward=("slow", "quick"), group_size=2)
    worth = [{"slow": 1.0, "quick": 2.0}, {"slow": 0.0, "quick": 0.0}]
    outcome = worker.compute(batch_of({f"g{number}": worth for number in range(4)}))
    assert callers == [(threading.get_ident(), f"g{number}") for number in range(4)]
    assert [group.final for group in outcome.groups] == [(3.0, 0.0)] * 4
    assert not _threads()


def test_the_first_failure_stops_later_groups(pooled: Pooled, batch_of: Batch, state_of: State) -> None:
    """After a failure the groups in flight are finished, the others never start, and no thread is left."""
    failing, never = threading.Event(), threading.Event()
    started = []

    def run(request: RewardGroupRequest) -> None:
        started.append(request.group_id)
        if request.group_id == "g0":
            failing.set()
            raise RewardContractError("bad")
        assert failing.wait(PATIENCE)
        if request.group_id != "g1":
            # It may have started between the failure and the word of it, once; it outlasts that moment.
            never.wait(0.1)

    batch = batch_of(_groups(50))
    before = state_of(batch)
    with pytest.raises(RewardContractError, match=r"^provider 'p', group 'g0': bad"):
        pooled(run, 2).score(batch)
    assert set(started) <= {"g0", "g1", "g2"}
    assert state_of(batch) == before
    assert not _threads()


def test_the_first_of_several_failures_is_raised(pooled: Pooled, batch_of: Batch) -> None:
    """When groups fail at the same time, the first in the order of the batch is raised, not the first in time."""
    barrier = threading.Barrier(3, timeout=PATIENCE)
    last_failed = threading.Event()

    def fail(request: RewardGroupRequest) -> None:
        barrier.wait()
        if request.group_id == "g0":
            assert last_failed.wait(PATIENCE)
        if request.group_id == "g2":
            last_failed.set()
        raise RewardContractError(f"bad {request.group_id}")

    with pytest.raises(RewardContractError, match=r"^provider 'p', group 'g0': bad g0"):
        pooled(fail, 3).score(batch_of(_groups(3)))
    assert not _threads()


def test_an_interrupt_in_the_callers_thread_passes(
    spec_of: Spec, read_off: ReadOff, batch_of: Batch, state_of: State
) -> None:
    """An interrupt is not held up by calls under way; nothing new starts, and their threads end with them."""
    in_flight, release = threading.Barrier(3, timeout=PATIENCE), threading.Event()
    started = []

    def wait(request: RewardGroupRequest) -> Any:
        started.append(request.group_id)
        in_flight.wait()
        assert release.wait(PATIENCE)
        return read_off(request, "slow")

    def interrupt(request: RewardGroupRequest) -> Any:
        in_flight.wait()
        raise KeyboardInterrupt("stop")

    catalog = {
        "slow": spec_of("slow", evaluate=wait, execution=ProviderExecution(groups_in_flight=2)),
        "quick": spec_of("quick", evaluate=interrupt),
    }
    worker = RewardWorker(catalog=catalog, reward=("slow", "quick"), group_size=2)
    batch = batch_of({f"g{number}": [{"slow": 1.0, "quick": 2.0}] * 2 for number in range(20)})
    before = state_of(batch)
    with pytest.raises(KeyboardInterrupt, match="stop"):
        worker.score(batch)
    assert len(_threads()) == 2
    release.set()
    assert _all_end()
    assert sorted(started) == ["g0", "g1"]
    assert state_of(batch) == before


def test_a_signal_interrupts_the_wait_for_threads(pooled: Pooled, batch_of: Batch, state_of: State) -> None:
    """Ctrl-C reaches a caller that waits for its threads, at once."""
    release = threading.Event()
    started = []

    def press(request: RewardGroupRequest) -> None:
        started.append(request.group_id)
        if request.group_id == "g0":
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        assert release.wait(PATIENCE)

    batch = batch_of(_groups(20))
    before = state_of(batch)
    # In a background job of a shell the signal is ignored unless somebody asks for it.
    outer = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt, match=r"^$"):
            pooled(press, 2).score(batch)
    finally:
        signal.signal(signal.SIGINT, outer)
    assert not release.is_set()
    release.set()
    assert _all_end()
    assert set(started) <= {"g0", "g1"}
    assert state_of(batch) == before


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_a_pool_passes(
    pooled: Pooled, batch_of: Batch, state_of: State, kind: type[BaseException]
) -> None:
    """An interrupt that a call in a thread raises reaches the caller as it is, and stops what has not started."""
    later = threading.Event()
    started = []

    def run(request: RewardGroupRequest) -> None:
        started.append(request.group_id)
        if request.group_id == "g1":
            raise kind("stop")
        if request.group_id != "g0":
            later.set()
        # The first group outlasts the interrupted one: time enough for a later one to start, were it let.
        later.wait(0.2)

    batch = batch_of(_groups(20))
    before = state_of(batch)
    with pytest.raises(kind, match="stop"):
        pooled(run, 2).score(batch)
    assert sorted(started) == ["g0", "g1"]
    assert state_of(batch) == before
    assert _all_end()


def test_after_an_interrupt_the_worker_scores_again(pooled: Pooled, batch_of: Batch) -> None:
    """An interrupted batch leaves nothing behind that a later one would trip over."""
    interrupts = [True]

    def once(request: RewardGroupRequest) -> None:
        if interrupts:
            interrupts.clear()
            raise KeyboardInterrupt("stop")

    worker = pooled(once, 2)
    batch = batch_of(_groups(6))
    with pytest.raises(KeyboardInterrupt, match="stop"):
        worker.score(batch)
    assert worker.score(batch).group_count == 6
    assert _all_end()
