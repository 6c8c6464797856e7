# SPDX-License-Identifier: Apache-2.0
"""An interrupt at any line or instruction of the stage leaves the batch whole: as it was, or fully committed."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Literal

import pytest

from posttrain.errors import RewardUnavailableError
from posttrain.rewards import (
    ProviderExecution,
    RewardGroupRequest,
    RewardOutcome,
    RewardProviderSpec,
    RewardReport,
    RewardWorker,
)
from posttrain.rewards.stage import transaction
from posttrain.schema import Trajectory

Batch = Callable[..., list[Trajectory]]
Spec = Callable[..., RewardProviderSpec]
InScope = Callable[[CodeType], bool]
Verdict = Literal["before", "after", "mixed"]
Place = tuple[str, int, str]

KINDS: list[type[BaseException]] = [KeyboardInterrupt, SystemExit]
BOTH: set[Verdict] = {"before", "after"}


class _Tracer:
    """Counts what the interpreter does in the frames that are in scope, and raises at one such event.

    A call counts, each line, with `opcodes` each instruction too, and the return. Left out is where no interrupt can
    come and the interpreter throws away what a tracer raises: the "exception" that ends a loop, and "call" and "return"
    of a generator, which are also sent when an unfinished one is let go.
    """

    def __init__(self, in_scope: InScope, *, at: int = 0, kind: type[BaseException] = KeyboardInterrupt) -> None:
        self.places: list[Place] = []
        self.opcodes = False
        self._in_scope, self._at, self._kind = in_scope, at, kind

    def __call__(self, frame: FrameType, event: str, arg: object) -> Any:
        if not self._in_scope(frame.f_code):
            return None
        frame.f_trace_opcodes = self.opcodes
        return self._step(frame, event, arg)

    def _step(self, frame: FrameType, event: str, arg: object) -> Any:
        if event in {"line", "opcode"} or (event != "exception" and not frame.f_code.co_flags & inspect.CO_GENERATOR):
            self.places.append((Path(frame.f_code.co_filename).name, frame.f_lineno, event))
            if len(self.places) == self._at:
                raise self._kind
        return self._step


def _traced(run: Callable[[], object], tracer: _Tracer, *, opcodes: bool = False) -> bool:
    """Whether `run` was interrupted."""
    tracer.opcodes = opcodes
    outer = sys.gettrace()
    sys.settrace(tracer)
    try:
        run()
    except (KeyboardInterrupt, SystemExit):
        return True
    finally:
        sys.settrace(outer)
    return False


class _Watch:
    """A batch with the two states that it may be found in."""

    def __init__(self, batch: list[Trajectory], expected: list[tuple[dict[str, float], float | None]]) -> None:
        self.batch = batch
        self._kept = [(each.reward, repr(each.reward), each.advantage) for each in batch]
        self._expected = [(repr(reward), repr(advantage)) for reward, advantage in expected]

    def verdict(self) -> Verdict:
        """Which it is, to the bit; the old reward dicts are never changed, whatever came."""
        assert all(repr(reward) == text for reward, text, _ in self._kept)
        if all(
            each.reward is reward and repr(each.advantage) == repr(advantage)
            for each, (reward, _, advantage) in zip(self.batch, self._kept, strict=True)
        ):
            return "before"
        now = [(repr(each.reward), repr(each.advantage)) for each in self.batch]
        return "after" if now == self._expected else "mixed"


# Three groups of two, the middle one dropped, rows interleaved; every term and advantage differs from what was there.
EXPECTED: list[tuple[dict[str, float], float | None]] = [
    ({"step": 0.0, "task": 1.0, "final": 1.0}, -1.0),
    ({"step": 1.0}, None),
    ({"step": 2.0, "task": 5.0, "final": 5.0}, -2.0),
    ({"step": 3.0, "task": 3.0, "final": 3.0}, 1.0),
    ({"step": 4.0}, None),
    ({"step": 5.0, "task": 9.0, "final": 9.0}, 2.0),
]


@pytest.fixture(params=[1, 2], ids=["in turn", "in threads"])
def in_flight(request: pytest.FixtureRequest) -> int:
    """How many groups the provider takes at once."""
    limit: int = request.param
    return limit


@pytest.fixture
def make_worker(spec_of: Spec, read_off: Callable[..., Any]) -> Callable[[int], RewardWorker]:
    """Groups of two; the group ``lost`` is dropped."""

    def evaluate(request: RewardGroupRequest) -> Any:
        if request.group_id == "lost":
            raise RewardUnavailableError("no answer")
        return read_off(request, "task")

    return lambda limit: RewardWorker(
        catalog={
            "p": spec_of(
                "task",
                needs=("prompt", "reference"),
                evaluate=evaluate,
                execution=ProviderExecution(groups_in_flight=limit),
            )
        },
        reward="p",
        group_size=2,
        estimator="group_mean",
        on_unavailable="drop_group",
        max_dropped_fraction=0.5,
    )


@pytest.fixture
def worker(make_worker: Callable[[int], RewardWorker]) -> RewardWorker:
    """One that scores in the caller's thread."""
    return make_worker(1)


@pytest.fixture
def fresh(batch_of: Batch) -> Callable[[], _Watch]:
    """Makes the batch that `EXPECTED` belongs to, with step rewards, older terms and older advantages in it."""

    def make() -> _Watch:
        rows = batch_of({"a": [1.0, 3.0], "lost": [0.0, 0.0], "b": [5.0, 9.0]})
        batch = [rows[0], rows[2], rows[4], rows[1], rows[3], rows[5]]
        for index, each in enumerate(batch):
            each.reward = {"task": 7.0, "step": float(index), "final": 7.0}
            each.advantage = 7.0
        return _Watch(batch, EXPECTED)

    return make


def _interrupted_everywhere(
    prepare: Callable[[], tuple[_Watch, Callable[[], object]]],
    in_scope: InScope,
    *,
    opcodes: bool = False,
    kind: type[BaseException] = KeyboardInterrupt,
    events: Callable[[list[Place]], Iterable[int]] = lambda places: range(1, len(places) + 1),
) -> Iterator[tuple[Verdict, Place]]:
    """For each event in turn: a fresh batch, an interrupt there, and how the batch is found."""
    prepare()[1]()  # what only happens the first time, like opening the evaluator
    watch, run = prepare()
    whole = _Tracer(in_scope)
    assert not _traced(run, whole, opcodes=opcodes)
    assert watch.verdict() == "after"
    for at in events(whole.places):
        watch, run = prepare()
        tracer = _Tracer(in_scope, at=at, kind=kind)
        assert _traced(run, tracer, opcodes=opcodes), f"the interrupt at {whole.places[at - 1]} was swallowed"
        yield watch.verdict(), tracer.places[-1]


def _mixtures(found: list[tuple[Verdict, Place]]) -> list[Place]:
    return [place for verdict, place in found if verdict == "mixed"]


def _of_package(source: Path) -> InScope:
    root = f"{source / 'posttrain'}/"
    return lambda code: code.co_filename.startswith(root)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("interleaved", [True, False], ids=["interleaved", "in order"])
def test_commit_is_whole_at_every_line(
    worker: RewardWorker, fresh: Callable[[], _Watch], source: Path, kind: type[BaseException], interleaved: bool
) -> None:
    """An interrupt at any call, line or return of a commit, in whatever module, never leaves a mixture."""
    outcome = worker.compute(fresh().batch)

    def prepare() -> tuple[_Watch, Callable[[], object]]:
        watch = fresh()
        order = [0, 1, 2, 3, 4, 5] if interleaved else [0, 3, 1, 4, 2, 5]
        return watch, lambda: worker.commit([watch.batch[index] for index in order], outcome)

    found = list(_interrupted_everywhere(prepare, _of_package(source), kind=kind))
    assert not _mixtures(found)
    assert {verdict for verdict, _ in found} == BOTH
    assert {place for _, (place, _, _) in found} >= {"transaction.py", "outcome.py"}
    # What is raised by the writes themselves, also after the last of them, is taken back.
    text, start = inspect.getsourcelines(transaction._swap)
    of_the_writes = [
        verdict
        for verdict, (module, line, _) in found
        if module == "transaction.py" and start <= line < start + len(text)
    ]
    assert of_the_writes == ["before"] * 3  # the call, its one line and its return


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="from 3.12 on a tracer is told of few instructions only")
@pytest.mark.parametrize(("kind", "stride"), [(KeyboardInterrupt, 1), (SystemExit, 5)])
def test_commit_is_whole_at_every_instruction(
    worker: RewardWorker, fresh: Callable[[], _Watch], source: Path, kind: type[BaseException], stride: int
) -> None:
    """The same holds inside a line: an interrupt at any instruction never leaves a mixture."""
    outcome = worker.compute(fresh().batch)

    def prepare() -> tuple[_Watch, Callable[[], object]]:
        watch = fresh()
        return watch, lambda: worker.commit(watch.batch, outcome)

    def events(places: list[Place]) -> range:
        return range(1, len(places) + 1, stride)

    found = list(_interrupted_everywhere(prepare, _of_package(source), opcodes=True, kind=kind, events=events))
    assert not _mixtures(found)
    assert {verdict for verdict, _ in found} == BOTH
    assert sum(event == "opcode" for _, (_, _, event) in found) > 1000 / stride


COMMITTING = {"transaction.py", "outcome.py"}


@pytest.mark.parametrize(("kind", "stride"), [(KeyboardInterrupt, 3), (SystemExit, 11)])
def test_a_score_is_whole_wherever_it_is_interrupted(
    make_worker: Callable[[int], RewardWorker],
    in_flight: int,
    fresh: Callable[[], _Watch],
    source: Path,
    kind: type[BaseException],
    stride: int,
) -> None:
    """From binding to the last return an interrupt leaves the batch whole, and the worker fit to score it."""
    worker, watch = make_worker(in_flight), fresh()

    def prepare() -> tuple[_Watch, Callable[[], object]]:
        nonlocal watch
        watch = fresh()
        return watch, lambda: worker.score(watch.batch)

    modules: set[str] = set()

    def events(places: list[Place]) -> list[int]:
        modules.update(module for module, _, _ in places)
        # Outside the commit, where nothing is written, some events stand for their neighbours.
        return [at for at, place in enumerate(places, 1) if place[0] in COMMITTING or at % stride == 0]

    for verdict, (module, line, event) in _interrupted_everywhere(
        prepare, _of_package(source), kind=kind, events=events
    ):
        assert verdict != "mixed", f"{event} at {module}:{line}"
        worker.score(watch.batch)
        assert watch.verdict() == "after", f"scored again after {event} at {module}:{line}"
    # In threads the providers' side of the stage is out of this thread's reach.
    elsewhere = {"boundary.py", "check.py"} if in_flight == 1 else set()
    assert modules >= {"annotate.py", "bind.py", "evaluator.py", "frozen.py", "transaction.py", "worker.py", *elsewhere}


def _attribute_by_attribute(trajectories: list[Trajectory], outcome: RewardOutcome) -> RewardReport:
    by_id = {each.trajectory_id: each for each in trajectories}
    for group in outcome.groups:
        for index, trajectory_id in enumerate(group.trajectory_ids):
            each = by_id[trajectory_id]
            kept = {name: value for name, value in each.reward.items() if name not in {*outcome.terms, "final"}}
            each.reward = {**kept, **(group.rewards()[index] if group.final else {})}
            each.advantage = group.advantages[index] if group.advantages else None
    return outcome.report


def _precomputed_then_written(trajectories: list[Trajectory], outcome: RewardOutcome) -> RewardReport:
    copies = [Trajectory(trajectory_id=t.trajectory_id, group_id=t.group_id, obs=t.obs) for t in trajectories]
    for copy, each in zip(copies, trajectories, strict=True):
        copy.reward = dict(each.reward)
    _attribute_by_attribute(copies, outcome)
    for copy, each in zip(copies, trajectories, strict=True):
        each.reward, each.advantage = copy.reward, copy.advantage
    return outcome.report


@pytest.mark.parametrize("commit", [_attribute_by_attribute, _precomputed_then_written])
@pytest.mark.parametrize("opcodes", [False, True], ids=["lines", "instructions"])
def test_a_naive_commit_is_caught(
    worker: RewardWorker,
    fresh: Callable[[], _Watch],
    commit: Callable[[list[Trajectory], RewardOutcome], RewardReport],
    opcodes: bool,
) -> None:
    """The check can fail: loops that set attributes, also those that compute all beforehand, are found out."""
    outcome = worker.compute(fresh().batch)

    def prepare() -> tuple[_Watch, Callable[[], object]]:
        watch = fresh()
        return watch, lambda: commit(watch.batch, outcome)

    found = list(_interrupted_everywhere(prepare, lambda code: code is commit.__code__, opcodes=opcodes))
    assert len(_mixtures(found)) >= len(EXPECTED)
    assert {verdict for verdict, _ in found} == {"before", "after", "mixed"}
