# SPDX-License-Identifier: Apache-2.0
"""Workers that are really lost: what each loss is reported as, whom it names, and that nothing else is harmed."""

from __future__ import annotations

import logging
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from posttrain.execution import ProcessEvaluator
from posttrain.execution.processes.memory import resident_bytes
from posttrain.execution.processes.printed import LOGGER
from posttrain.rewards import RewardContractError, RewardUnavailableError, RewardWorker
from posttrain.rewards.stage.bind import bind

Batch = Callable[[Mapping[str, Any]], list[Any]]
Workers = Callable[..., RewardWorker]

SLOW = {"group_timeout_s": 2.0}
"""Settings under which a group that hangs is given up soon."""


def _evaluator(worker: RewardWorker) -> ProcessEvaluator:
    evaluator = worker.stage.evaluator
    assert isinstance(evaluator, ProcessEvaluator)
    return evaluator


@pytest.mark.parametrize(
    ("deed", "pool", "words", "cause"),
    [
        ("kill", {}, "was killed by SIGKILL", "ChildProcessError"),
        ("segfault", {}, "was killed by SIGSEGV", "ChildProcessError"),
        ("exit", {}, "ended with exit code 3", "ChildProcessError"),
        ("close descriptors", {}, "closed the channel that answers come on", "ChildProcessError"),
        ("garbage", {}, "wrote what can't be read", "ChildProcessError"),
        ("spin", SLOW, r"did not score the group within 2 s \(group_timeout_s\)", "TimeoutError"),
        ("hang in c", SLOW, r"did not score the group within 2 s", "TimeoutError"),
        ("ignore signals", SLOW, r"did not score the group within 2 s", "TimeoutError"),
        ("stop", SLOW, r"did not score the group within 2 s", "TimeoutError"),
        ("allocate", {"memory_limit_mib": 256}, "past memory_limit_mib=256", "MemoryError"),
        ("allocate in child", {"memory_limit_mib": 256}, "past memory_limit_mib=256", "MemoryError"),
    ],
)
def test_a_lost_worker_names_its_group_and_candidate_and_the_others_survive(
    worker_of: Workers, batch_of: Batch, deed: str, pool: dict[str, Any], words: str, cause: str
) -> None:
    """All other groups are scored, the error says who and why, and the pool is whole again."""
    worker = worker_of(pool=pool)
    groups: dict[str, Any] = {f"g{index}": [1.0, 0.0] for index in range(12)}
    bound = bind(batch_of({**groups, "bad": [1.0, deed]}), worker.stage.selection, 2)
    evaluator = _evaluator(worker)
    evaluator.open()
    *others, error = evaluator.evaluate(bound, collect_unavailable=True)
    assert [each[0].terms["task"] for each in others if isinstance(each, tuple)] == [(1.0, 0.0)] * 12
    assert isinstance(error, RewardUnavailableError)
    assert (error.provider, error.group_id, error.trajectory_id) == ("obey", "bad", "bad/1")
    assert error.request is bound[-1].requests[0]
    assert re.search(words, str(error))
    assert error.cause_type == cause
    evaluator.evaluate(bound[:12], collect_unavailable=False)
    assert len(evaluator.pids) == 2
    assert evaluator.restarts == 1


def test_a_scorer_that_exits_is_its_own_fault(worker_of: Workers, batch_of: Batch) -> None:
    """`sys.exit` is no outside failure: no policy drops its group, and the worker lives on."""
    worker = worker_of(on_unavailable="drop_group", max_dropped_fraction=1.0)
    evaluator = _evaluator(worker)
    with pytest.raises(RewardContractError, match=r"provider 'obey', group 'bad': raised SystemExit: 4") as caught:
        worker.compute(batch_of({"good": [1.0, 0.0], "bad": [1.0, "sys.exit"]}))
    assert caught.value.cause_type == "SystemExit"
    worker.compute(batch_of({"good": [1.0, 0.0]}))
    assert evaluator.restarts == 0


def test_the_policy_drops_the_group_under_its_cause(worker_of: Workers, batch_of: Batch) -> None:
    """The report counts what was lost by how it was lost."""
    worker = worker_of(on_unavailable="drop_group", max_dropped_fraction=0.5)
    outcome = worker.compute(batch_of({"g0": [1.0, 0.0], "bad": ["exit", 1.0], "g2": [0.0, 1.0]}))
    assert [each.final for each in outcome.groups] == [(1.0, 0.0), (), (0.0, 1.0)]
    assert outcome.report.dropped == {"obey: ChildProcessError": 1}


@pytest.mark.parametrize("deed", ["hang in c", "spin", "sleep"])
def test_a_hang_says_where_it_is(worker_of: Workers, batch_of: Batch, deed: str) -> None:
    """The error of a group that was given up quotes the line that the worker hung at, and is no crash."""
    with pytest.raises(RewardUnavailableError, match=rf"rewards\.py.*_{deed.replace(' ', '_')}") as caught:
        worker_of(pool={"group_timeout_s": 0.5}).score(batch_of({"bad": [1.0, deed]}))
    assert "Fatal" not in str(caught.value)
    assert caught.value.cause_type == "TimeoutError"


def test_a_hang_that_crashes_when_asked_is_still_a_timeout(worker_of: Workers, batch_of: Batch) -> None:
    """The driver's own question is not what the group is counted by."""
    worker = worker_of(pool={"group_timeout_s": 0.5}, on_unavailable="drop_group", max_dropped_fraction=0.9)
    outcome = worker.compute(batch_of({"bad": [1.0, "crash when asked"], "good": [1.0, 0.0]}))
    assert outcome.report.dropped == {"obey: TimeoutError": 1}


def test_an_outside_kill_in_the_middle_of_a_group(
    worker_of: Workers, batch_of: Batch, marks: Callable[[str], int]
) -> None:
    """A worker that somebody kills takes just its group with it."""
    worker = worker_of(on_unavailable="drop_group", max_dropped_fraction=0.5)
    killer = threading.Thread(target=lambda: os.kill(marks("sleep-g0-1"), signal.SIGKILL))
    killer.start()
    outcome = worker.compute(batch_of({"g0": [1.0, "sleep"], "g1": [1.0, 0.0], "g2": [0.0, 1.0]}))
    killer.join()
    assert [each.final for each in outcome.groups] == [(), (1.0, 0.0), (0.0, 1.0)]


def test_a_worker_that_dies_idle_is_replaced_and_nobody_is_blamed(worker_of: Workers, batch_of: Batch) -> None:
    """No group was in its hands, so the next batch is scored in full."""
    worker = worker_of()
    batch = batch_of({f"g{index}": [1.0, 0.0] for index in range(8)})
    worker.score(batch)
    for pid in _evaluator(worker).pids:
        os.kill(pid, signal.SIGKILL)
    assert worker.score(batch).providers["obey"].sample_count == 16
    assert len(_evaluator(worker).pids) == 2


def test_groups_sent_ahead_to_a_lost_worker_are_given_to_another(worker_of: Workers, batch_of: Batch) -> None:
    """One worker is fed ahead while groups are fast; when it dies, only the group that it had begun is lost."""
    worker = worker_of(pool={"workers": 1}, on_unavailable="drop_group", max_dropped_fraction=0.5)
    groups: dict[str, Any] = {f"g{index}": [1.0, 0.0] for index in range(40)}
    for index in (7, 20, 21, 39):
        groups[f"g{index}"] = [0.0, "exit"]
    outcome = worker.compute(batch_of(groups))
    assert [each.group_id for each in outcome.groups if each.dropped_because] == ["g7", "g20", "g21", "g39"]
    assert outcome.report.providers["obey"].sample_count == 72


class _Waits(logging.Handler):
    """Holds the driver up at the first line that a worker prints."""

    def __init__(self, until: Callable[[], object]) -> None:
        super().__init__()
        self._until: Callable[[], object] | None = until

    def emit(self, record: logging.LogRecord) -> None:
        until, self._until = self._until, None
        if until is not None:
            until()


def test_a_group_that_was_answered_is_not_lost_with_the_next_one(
    worker_of: Workers, batch_of: Batch, marks: Callable[[str], int]
) -> None:
    """A worker that answers one group and outgrows its bound in the next, before the driver looks, loses only that."""
    worker = worker_of(pool={"workers": 1, "memory_limit_mib": 256})
    evaluator = _evaluator(worker)
    evaluator.open()
    quick = bind(batch_of({f"g{index}": [1.0, 0.0] for index in range(20)}), worker.stage.selection, 2)
    evaluator.evaluate(quick, collect_unavailable=False)

    def until_it_has_grown() -> None:
        pid, deadline = marks("hold-bad-0"), time.monotonic() + 20
        while resident_bytes(pid) < 300 << 20 and time.monotonic() < deadline:
            time.sleep(0.01)

    handler = _Waits(until_it_has_grown)
    LOGGER.addHandler(handler)
    try:
        bound = bind(batch_of({"good": ["print", 1.0], "bad": ["hold", 1.0]}), worker.stage.selection, 2)
        good, bad = evaluator.evaluate(bound, collect_unavailable=True)
    finally:
        LOGGER.removeHandler(handler)
    assert isinstance(good, tuple)
    assert good[0].terms["task"] == (0.5, 1.0)
    assert isinstance(bad, RewardUnavailableError)
    assert (bad.group_id, bad.trajectory_id, bad.cause_type) == ("bad", "bad/0", "MemoryError")


def test_without_the_policy_the_batch_fails_whole(worker_of: Workers, batch_of: Batch) -> None:
    """A lost worker fails the batch, and no trajectory was touched."""
    worker = worker_of()
    batch = batch_of({"g0": [1.0, 0.0], "g1": [1.0, "kill"], "g2": [0.0, 1.0]})
    with pytest.raises(RewardUnavailableError, match="SIGKILL"):
        worker.score(batch)
    assert all(each.reward == {} and each.advantage is None for each in batch)


def test_the_second_provider_is_named_when_it_is_at_fault(worker_of: Workers, batch_of: Batch) -> None:
    """Of several providers the one at work is named; the candidate too, inside of a route."""
    worker = worker_of(("rich", "routed"))
    with pytest.raises(RewardUnavailableError, match="exit code 3") as caught:
        worker.score(batch_of({"g0": ["exit", 1.0]}))
    assert (caught.value.provider, caught.value.trajectory_id) == ("routed", "g0/0")


def test_a_deadline_is_for_a_group_not_for_a_batch(worker_of: Workers, batch_of: Batch) -> None:
    """Many groups may take longer together than one may alone."""
    worker = worker_of("obey", pool={"workers": 1, "group_timeout_s": 2})
    batch = batch_of({f"g{index}": [1.0, 0.0] for index in range(30)})
    began = time.monotonic()
    while time.monotonic() - began < 2.2:
        worker.score(batch)
    assert _evaluator(worker).restarts == 0
