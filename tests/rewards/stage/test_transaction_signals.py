# SPDX-License-Identifier: Apache-2.0
"""Real signals, other threads, the garbage collector and a full memory find the batch whole too."""

from __future__ import annotations

import gc
import json
import sys
import threading
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

import pytest

from posttrain.rewards import RewardOutcome, RewardProviderSpec, RewardWorker
from posttrain.rewards.stage.transaction import commit
from posttrain.schema import Trajectory

Batch = Callable[..., list[Trajectory]]
Spec = Callable[..., RewardProviderSpec]
Commit = Callable[[list[Trajectory], RewardOutcome], object]

# What both programs below start with: a worker, and batches whose older reward and advantage can be told from the new.
PRELUDE = """
import json, random, signal, sys, time
from functools import partial
from posttrain.rewards import RewardProviderResult, RewardProviderSpec, RewardWorker, map_candidates
from posttrain.schema import Observation, Trajectory

def read(candidate, context):
    return RewardProviderResult({"task": float(candidate.completion)})

spec = RewardProviderSpec(factory=partial(map_candidates, read), revision="1", terms=("task",), needs=("prompt",))
worker = RewardWorker(catalog={"p": spec}, reward="p", group_size=4)

def batch_of(groups):
    return [
        Trajectory(
            trajectory_id=f"{group}/{index}", group_id=str(group), obs=Observation(id=str(group), prompt="q"),
            completion=str(index), reward={"step": 1.0, "task": -1.0, "final": -1.0}, advantage=-7.0,
        )
        for group in range(groups) for index in range(4)
    ]

def verdict(batch, old):
    if all(each.reward is reward and each.advantage == -7.0 for each, reward in zip(batch, old)):
        kept = all(list(each.items()) == [("step", 1.0), ("task", -1.0), ("final", -1.0)] for each in old)
        return "before" if kept else "changed in place"
    worth = [float(index) for _ in range(len(batch) // 4) for index in range(4)]
    written = [list(each.reward.items()) for each in batch]
    if written != [[("step", 1.0), ("task", value), ("final", value)] for value in worth]:
        return "mixed"
    # 0, 1, 2 and 3 lie symmetrically around their mean, so the advantages of each group do around zero.
    signs = [each.advantage is not None and each.advantage > 0 for each in batch]
    low = all(each.advantage != -7.0 for each in batch)
    return "after" if low and signs == [False, False, True, True] * (len(batch) // 4) else "mixed"
"""

STORM = """
def naive(batch, outcome):
    rewards = [reward for group in outcome.groups for reward in group.rewards()]
    advantages = [advantage for group in outcome.groups for advantage in group.advantages]
    for each, reward, advantage in zip(batch, rewards, advantages):
        each.reward = {"step": 1.0, **reward}
        each.advantage = advantage

commit = worker.commit if careful else naive
hits = {"commit": 0, "elsewhere": 0}

def strike(number, frame):
    # Only inside what is tested: the checks of the batch afterwards are not to be interrupted.
    if frame is not None and ("/posttrain/" in frame.f_code.co_filename or frame.f_code is naive.__code__):
        hits["elsewhere" if "/posttrain/rewards/stage/transaction" not in frame.f_code.co_filename else "commit"] += 1
        raise KeyboardInterrupt

signal.signal(signal.SIGALRM, strike)
found = {}
rng = random.Random(1)
deadline = time.monotonic() + 4.0
while time.monotonic() < deadline and (min(hits.values()) < 40 if careful else "mixed, interrupted" not in found):
    batch = batch_of(rng.choice([3, 200]))
    old = [each.reward for each in batch]
    outcome = worker.compute(batch) if rng.random() < 0.6 else None
    # Again and again: the second may come while the first is being handled.
    signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-5, 1e-3), rng.uniform(1e-4, 4e-4))
    interrupted = False
    try:
        worker.score(batch) if outcome is None else commit(batch, outcome)
    except KeyboardInterrupt:
        interrupted = True
    signal.setitimer(signal.ITIMER_REAL, 0)
    key = f"{verdict(batch, old)}, {'interrupted' if interrupted else 'undisturbed'}"
    found[key] = found.get(key, 0) + 1
json.dump({"found": found, "hits": hits}, sys.stdout)
"""


def test_a_storm_of_signals_never_leaves_a_mixture(fresh_python: Callable[[str], str]) -> None:
    """Signals at random moments of many scores and commits, several in a row, always find the batch whole."""
    told = json.loads(fresh_python(f"{PRELUDE}\ncareful = True\n{STORM}"))
    assert set(told["found"]) <= {"before, interrupted", "after, interrupted", "after, undisturbed"}
    assert told["found"]["before, interrupted"] > 0
    assert told["found"]["after, undisturbed"] > 0
    assert told["hits"]["commit"] > 0
    assert told["hits"]["elsewhere"] > 0


def test_a_storm_of_signals_does_tear_a_naive_commit(fresh_python: Callable[[str], str]) -> None:
    """The check can fail: a loop that sets attributes is caught half way."""
    told = json.loads(fresh_python(f"{PRELUDE}\ncareful = False\n{STORM}"))
    assert told["found"]["mixed, interrupted"] == 1


SHORTAGE = """
import gc, _testcapi
gc.disable()
outcome = worker.compute(batch_of(3))
commit, fail_at, recover = worker.commit, _testcapi.set_nomemory, _testcapi.remove_mem_hooks

def attempt(batch, at, width):
    try:
        fail_at(at, at + width)
        commit(batch, outcome)
    except MemoryError:
        recover()
        return "failed"
    recover()
    return "done"

found = {}
for width in (1, 2, 4):
    for at in range(1, 300):
        batch = batch_of(3)
        old = [each.reward for each in batch]
        told = attempt(batch, at, width)
        key = f"{verdict(batch, old)}, {told}"
        found[key] = found.get(key, 0) + 1
json.dump(found, sys.stdout)
"""


def test_running_out_of_memory_never_leaves_a_mixture(fresh_python: Callable[[str], str]) -> None:
    """A commit in which any one allocation fails, or a few in a row, fails with the batch as it was."""
    pytest.importorskip("_testcapi")
    found = json.loads(fresh_python(PRELUDE + SHORTAGE))
    assert set(found) == {"before, failed", "after, done"}
    assert found["before, failed"] > 300


def _one_by_one(trajectories: list[Trajectory], outcome: RewardOutcome) -> None:
    finals = [final for group in outcome.groups for final in group.final]
    advantages = [advantage for group in outcome.groups for advantage in group.advantages]
    kept = []
    for each, final, advantage in zip(trajectories, finals, advantages, strict=True):
        # The old ones are kept, so that each new one is a new piece of memory.
        kept.append(each.reward)
        each.reward = {"task": abs(final), "final": final}
        each.advantage = advantage


@pytest.fixture
def two_outcomes(spec_of: Spec, batch_of: Batch) -> tuple[list[Trajectory], list[RewardOutcome]]:
    """One batch with two outcomes that differ in every reward and every advantage."""
    batch = batch_of({f"g{number}": [1.0, 3.0] for number in range(200)})
    outcomes = [
        RewardWorker(
            catalog={"p": spec_of("task")}, reward="p", group_size=2, estimator="group_mean", weights={"task": weight}
        ).compute(batch)
        for weight in (1.0, -2.0)
    ]
    return batch, outcomes


def _looks(batch: list[Trajectory]) -> Iterator[set[str]]:
    """What a look at the whole batch sees, endlessly: the outcomes that its rewards and advantages are of."""
    # Everything is read in one call into C, so that the look itself is not torn.
    read = attrgetter("reward", "advantage")
    while True:
        seen = list(map(read, batch))
        # With weight 1 the finals are 1 and 3, the advantages -1 and 1; with weight -2 they are -2, -6 and 2, -2.
        yield {"one" if reward["final"] > 0 else "other" for reward, _ in seen} | {
            "one" if abs(advantage) == 1.0 else "other" for _, advantage in seen
        }


def _mixtures_seen_by_a_thread(
    write: Commit, batch: list[Trajectory], outcomes: list[RewardOutcome], *, looks: int
) -> tuple[int, set[str]]:
    """How many of a second thread's looks see both outcomes at once, and which outcomes were seen at all."""
    commit(batch, outcomes[0])
    mixtures, seen_ever = 0, set()
    done = threading.Event()

    def observe() -> None:
        nonlocal mixtures
        for _, seen in zip(range(looks), _looks(batch), strict=False):
            mixtures += len(seen) > 1
            seen_ever.update(seen)
        done.set()

    observer = threading.Thread(target=observe)
    patience = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        observer.start()
        while not done.is_set():
            for outcome in outcomes:
                write(batch, outcome)
    finally:
        sys.setswitchinterval(patience)
        observer.join()
    return mixtures, seen_ever


def test_no_other_thread_sees_a_mixture(two_outcomes: tuple[list[Trajectory], list[RewardOutcome]]) -> None:
    """While commits follow each other, a second thread sees one outcome or the other, never parts of both."""
    mixtures, seen = _mixtures_seen_by_a_thread(commit, *two_outcomes, looks=1000)
    assert mixtures == 0
    assert seen == {"one", "other"}


def test_a_second_thread_does_see_a_naive_commit(two_outcomes: tuple[list[Trajectory], list[RewardOutcome]]) -> None:
    """The check can fail: of a loop that sets attributes the second thread sees mixtures."""
    mixtures, _ = _mixtures_seen_by_a_thread(_one_by_one, *two_outcomes, looks=1000)
    assert mixtures > 0


class _Litter:
    """Garbage that only the collector finds, and that looks at the batch when it does."""

    def __init__(self, look: Callable[[], None]) -> None:
        self.look = look
        self.loop = self

    def __del__(self) -> None:
        self.look()


def _mixtures_seen_by_the_collector(
    write: Commit, batch: list[Trajectory], outcomes: list[RewardOutcome]
) -> tuple[int, int]:
    """Mixtures and looks of finalizers, with the collector running as often as it can."""
    commit(batch, outcomes[0])
    looks: list[Any] = []
    littering = True

    def look() -> None:
        looks.append(next(_looks(batch)))
        if littering:
            _Litter(look)

    thresholds = gc.get_threshold()
    try:
        for threshold in (1, 4):
            _Litter(look)
            gc.set_threshold(threshold)
            for outcome in reversed(outcomes):
                write(batch, outcome)
            gc.set_threshold(*thresholds)
    finally:
        gc.set_threshold(*thresholds)
        littering = False
        gc.collect()
    return sum(len(seen) > 1 for seen in looks), len(looks)


def test_no_finalizer_sees_a_mixture(two_outcomes: tuple[list[Trajectory], list[RewardOutcome]]) -> None:
    """Finalizers that the garbage collector runs during a commit see one outcome or the other."""
    mixtures, looks = _mixtures_seen_by_the_collector(commit, *two_outcomes)
    assert mixtures == 0
    assert looks > 20


def test_a_finalizer_does_see_a_naive_commit(two_outcomes: tuple[list[Trajectory], list[RewardOutcome]]) -> None:
    """The check can fail: the collector gets between the writes of a loop that sets attributes."""
    mixtures, _ = _mixtures_seen_by_the_collector(_one_by_one, *two_outcomes)
    assert mixtures > 0
