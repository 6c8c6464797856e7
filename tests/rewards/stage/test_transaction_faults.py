# SPDX-License-Identifier: Apache-2.0
"""A failure at any step, of any kind, at any candidate, leaves every trajectory as it was, to the bit."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from dataclasses import replace as replace_record
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from posttrain.errors import RewardConfigError, RewardContractError, RewardError, RewardUnavailableError
from posttrain.rewards import (
    MetricContribution,
    ProviderExecution,
    RewardCandidateResult,
    RewardGroupRequest,
    RewardGroupResult,
    RewardProviderResult,
    RewardProviderSpec,
    RewardWorker,
)
from posttrain.schema import Trajectory
from strategies import finite_floats

Batch = Callable[..., list[Trajectory]]
Spec = Callable[..., RewardProviderSpec]
State = Callable[..., list[tuple[int, str, str]]]
Fault = Callable[[RewardGroupResult, int], Any]

TERMS = {"one": ("a",), "two": ("b", "c")}
LARGEST = 1.7e308


def _raises(error: BaseException) -> Fault:
    def fault(result: RewardGroupResult, index: int) -> Any:
        raise error

    return fault


def _with_item(result: RewardGroupResult, index: int, item: Any) -> RewardGroupResult:
    return replace(result, items=(*result.items[:index], item, *result.items[index + 1 :]))


def _with_scores(result: RewardGroupResult, index: int, scores: Any) -> RewardGroupResult:
    return _with_item(result, index, replace(result.items[index], result=scores))


def _value(value: Any) -> Fault:
    def fault(result: RewardGroupResult, index: int) -> Any:
        terms = dict.fromkeys(result.items[index].result.terms, value)
        return _with_scores(result, index, RewardProviderResult(terms))

    return fault


def _terms(change: Callable[[dict[str, float]], Any]) -> Fault:
    def fault(result: RewardGroupResult, index: int) -> Any:
        return _with_scores(result, index, RewardProviderResult(change(dict(result.items[index].result.terms))))

    return fault


def _diagnostics(name: str, value: Any) -> Fault:
    def fault(result: RewardGroupResult, index: int) -> Any:
        scores = result.items[index].result
        return _with_scores(result, index, RewardProviderResult(scores.terms, {name: value}))

    return fault


PASSING: dict[str, BaseException] = {
    "KeyboardInterrupt": KeyboardInterrupt("stop"),
    "SystemExit": SystemExit("stop"),
    "GeneratorExit": GeneratorExit("stop"),
    "CancelledError": CancelledError("stop"),
}
"""What goes through the boundary as it is."""

RAISED: dict[str, Exception] = {
    "ValueError": ValueError("odd"),
    "StopIteration": StopIteration(1.0),
    "MemoryError": MemoryError(),
    "RecursionError": RecursionError("deep"),
    "AssertionError": AssertionError(),
    "TimeoutError": TimeoutError("late"),
    "contract": RewardContractError("bad row"),
    "config": RewardConfigError("bad key"),
    "unavailable": RewardUnavailableError("no answer"),
}

RESULTS: dict[str, Fault] = {
    "nothing": lambda result, index: None,
    "bare items": lambda result, index: result.items,
    "a list of items": lambda result, index: replace(result, items=list(result.items)),
    "another group": lambda result, index: replace(result, group_id="other"),
    "an item less": lambda result, index: replace(result, items=result.items[:index] + result.items[index + 1 :]),
    "an item twice": lambda result, index: replace(result, items=(*result.items, result.items[index])),
    "a stranger": lambda result, index: _with_item(
        result, index, RewardCandidateResult("stranger", result.items[index].result)
    ),
    "no item": lambda result, index: _with_item(result, index, 0.5),
    "no scores": lambda result, index: _with_scores(result, index, None),
    "terms that are a number": _terms(lambda terms: 1.0),
    "a term less": _terms(lambda terms: {}),
    "a term more": _terms(lambda terms: {**terms, "more": 1.0}),
    "the final": _terms(lambda terms: {**terms, "final": 1.0}),
    "None": _value(None),
    "NaN": _value(math.nan),
    "infinity": _value(math.inf),
    "minus infinity": _value(-math.inf),
    "True": _value(value=True),
    "a string": _value("0.5"),
    "complex": _value(1j),
    "an unknown diagnostic": _diagnostics("unknown", MetricContribution.mean(1.0)),
    "a bare diagnostic": _diagnostics("calls", 1.0),
    "a forged diagnostic": _diagnostics("calls", MetricContribution("mean", (math.nan,), (1.0,))),
}

LATER: dict[str, Fault] = {
    # Honest diagnostics are totals; two kinds in one group are refused at the boundary, in two groups at the report.
    "another kind of diagnostic": lambda result, index: replace(
        result,
        items=tuple(
            replace(item, result=RewardProviderResult(item.result.terms, {"calls": MetricContribution.mean(1.0)}))
            for item in result.items
        ),
    ),
    # Weights are 2: each product is beyond the largest float.
    "a sum out of range": _value(LARGEST),
}
"""Faults of a group that is sound in itself."""


@dataclass(frozen=True)
class Case:
    """A batch, where in it what goes wrong, and how it is run."""

    worths: list[list[tuple[float, float, float]]]
    provider: str
    group: int
    candidate: int
    limits: dict[str, int]
    policy: str
    prior: list[float | None]

    @property
    def size(self) -> int:
        """Candidates per group."""
        return len(self.worths[0])


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Batches of 2 to 4 groups with a place in them, prior rewards, threads or none, and either policy."""
    groups, size = draw(st.integers(2, 4)), draw(st.integers(1, 3))
    small = st.floats(-1e6, 1e6)
    worth = st.lists(st.tuples(small, small, small), min_size=size, max_size=size)
    return Case(
        worths=draw(st.lists(worth, min_size=groups, max_size=groups)),
        provider=draw(st.sampled_from(sorted(TERMS))),
        group=draw(st.integers(0, groups - 1)),
        candidate=draw(st.integers(0, size - 1)),
        limits={name: draw(st.sampled_from([1, 1, 3])) for name in TERMS},
        policy=draw(st.sampled_from(["fail", "drop_group"])),
        prior=draw(st.lists(st.none() | finite_floats, min_size=groups * size, max_size=groups * size)),
    )


@pytest.fixture(scope="session")
def set_up(
    batch_of: Batch, spec_of: Spec, read_off: Callable[..., RewardGroupResult]
) -> Callable[[Case, Fault | None], tuple[RewardWorker, list[Trajectory]]]:
    """A worker of two providers, one of which commits the fault at the case's place, and a batch with prior rewards."""

    def make(case: Case, fault: Fault | None) -> tuple[RewardWorker, list[Trajectory]]:
        def provider(name: str) -> RewardProviderSpec:
            def evaluate(request: RewardGroupRequest) -> Any:
                honest = read_off(request, *TERMS[name])
                total = {"calls": MetricContribution.total(1.0)}
                items = [replace(item, result=RewardProviderResult(item.result.terms, total)) for item in honest.items]
                result = replace(honest, items=tuple(items))
                if fault is not None and name == case.provider and request.group_id == f"g{case.group}":
                    return fault(result, case.candidate)
                return result

            execution = ProviderExecution(groups_in_flight=case.limits[name])
            return spec_of(*TERMS[name], evaluate=evaluate, diagnostics=("calls",), execution=execution)

        worker = RewardWorker(
            catalog={name: provider(name) for name in TERMS},
            reward=tuple(TERMS),
            group_size=case.size,
            weights=dict.fromkeys("abc", 2.0),
            on_unavailable=case.policy,  # type: ignore[arg-type]  # drawn from the two
            max_dropped_fraction=0.0,
        )
        names = ("a", "b", "c")
        batch = batch_of(
            {f"g{at}": [dict(zip(names, worth, strict=True)) for worth in row] for at, row in enumerate(case.worths)}
        )
        for each, old in zip(batch, case.prior, strict=True):
            if old is not None:
                each.reward = {"a": old, "step": old, "final": old}
                each.advantage = old
        return worker, batch

    return make


SetUp = Callable[[Case, Fault | None], tuple[RewardWorker, list[Trajectory]]]


@given(case=cases(), kind=st.sampled_from(sorted(RAISED)))
def test_a_provider_that_raises_changes_nothing(set_up: SetUp, state_of: State, case: Case, kind: str) -> None:
    """Whatever a provider raises, at whichever group, the batch is as it was and the error names who and where."""
    error = RAISED[kind]
    worker, batch = set_up(case, _raises(type(error)(*error.args)))
    before = state_of(batch)
    with pytest.raises(RewardError, match=r".") as caught:
        worker.score(batch)
    assert state_of(batch) == before
    if kind == "unavailable" and case.policy == "drop_group":
        assert "above the ceiling of 0" in caught.value.message
    else:
        assert (caught.value.provider, caught.value.group_id) == (case.provider, f"g{case.group}")
        assert type(caught.value) is (type(error) if isinstance(error, RewardError) else RewardContractError)


@given(case=cases(), kind=st.sampled_from(sorted(PASSING)))
def test_an_interrupt_inside_a_provider_changes_nothing(set_up: SetUp, state_of: State, case: Case, kind: str) -> None:
    """Interrupts and cancellation pass through as they are, from a pool's thread too, and write nothing."""
    worker, batch = set_up(case, _raises(PASSING[kind]))
    before = state_of(batch)
    with pytest.raises(type(PASSING[kind]), match=r"^stop$") as caught:
        worker.score(batch)
    assert caught.value is PASSING[kind]
    assert state_of(batch) == before


@given(case=cases(), kind=st.sampled_from(sorted(RESULTS)))
def test_a_bad_result_changes_nothing(set_up: SetUp, state_of: State, case: Case, kind: str) -> None:
    """Whatever is wrong with a result, the batch is as it was and the error names provider and group."""
    worker, batch = set_up(case, RESULTS[kind])
    before = state_of(batch)
    with pytest.raises(RewardContractError, match=r".") as caught:
        worker.score(batch)
    assert state_of(batch) == before
    assert (caught.value.provider, caught.value.group_id) == (case.provider, f"g{case.group}")


@given(case=cases(), kind=st.sampled_from(sorted(LATER)))
def test_a_fault_after_the_last_group_changes_nothing(set_up: SetUp, state_of: State, case: Case, kind: str) -> None:
    """What only shows when all groups are scored, in the combination or in the report, changes nothing either."""
    worker, batch = set_up(case, LATER[kind])
    before = state_of(batch)
    with pytest.raises(RewardContractError, match=r"diagnostic 'calls'|beyond the range") as caught:
        worker.score(batch)
    assert state_of(batch) == before
    if kind == "another kind of diagnostic":
        assert caught.value.provider == case.provider
        honest = "g1" if case.group == 0 else "g0"
        assert caught.value.message.splitlines()[1:] == [
            f"  mean: first in group 'g{case.group}'",
            f"  total: first in group '{honest}'",
        ]
    else:
        assert caught.value.group_id == f"g{case.group}"
        assert caught.value.trajectory_id == f"g{case.group}/{case.candidate}"


BATCHES: dict[str, Callable[[list[Trajectory], int], None]] = {
    "no completion": lambda batch, at: setattr(batch[at], "completion", None),
    "another observation": lambda batch, at: setattr(batch[at].obs, "id", "other"),
    "another group": lambda batch, at: setattr(batch[at], "group_id", "other"),
    "an empty id": lambda batch, at: setattr(batch[at], "trajectory_id", ""),
    "an id twice": lambda batch, at: setattr(batch[at], "trajectory_id", batch[at - 1].trajectory_id),
    "a candidate more": lambda batch, at: batch.append(replace_record(batch[at], trajectory_id="more")),
    "no record": lambda batch, at: batch.__setitem__(at, "text"),  # type: ignore[call-overload]  # the mistake
}


@given(case=cases(), kind=st.sampled_from(sorted(BATCHES)))
def test_a_bad_batch_changes_nothing(set_up: SetUp, state_of: State, case: Case, kind: str) -> None:
    """A batch that does not fit the contract is refused before any provider is called, and stays as it was."""

    def unreachable(result: RewardGroupResult, index: int) -> Any:
        raise AssertionError("a provider was called")

    worker, batch = set_up(case, unreachable)
    sound = [*batch]
    BATCHES[kind](batch, case.group * case.size + case.candidate)
    before = state_of(sound)
    with pytest.raises(RewardContractError, match="the batch does not fit the contract"):
        worker.score(batch)
    assert state_of(sound) == before


@given(case=cases(), data=st.data())
def test_a_commit_with_other_trajectories_changes_nothing(
    set_up: SetUp, state_of: State, case: Case, data: st.DataObject
) -> None:
    """An outcome that is committed with a trajectory less, more or exchanged writes to none."""
    worker, batch = set_up(case, None)
    outcome = worker.compute(batch)
    _, others = set_up(case, None)
    others[0].trajectory_id = "stranger"
    at = data.draw(st.integers(0, len(batch) - 1))
    given_in = data.draw(
        st.sampled_from([batch[:at] + batch[at + 1 :], [*batch, others[0]], [*batch[:at], others[0], *batch[at + 1 :]]])
    )
    before, before_others = state_of(batch), state_of(others)
    with pytest.raises(RewardContractError, match="not those that the outcome was computed for"):
        worker.commit(data.draw(st.permutations(given_in)), outcome)
    assert state_of(batch) == before
    assert state_of(others) == before_others


@given(case=cases())
def test_without_a_fault_the_same_cases_are_written(set_up: SetUp, case: Case) -> None:
    """The check can fail: without its fault each case writes every trajectory, and the prior keys go."""
    worker, batch = set_up(case, None)
    worker.score(batch)
    worths = [worth for row in case.worths for worth in row]
    for each, (a, b, c), old in zip(batch, worths, case.prior, strict=True):
        kept = {} if old is None else {"step": old}
        assert each.reward == {**kept, "a": a, "b": b, "c": c, "final": math.fsum([2 * a, 2 * b, 2 * c])}
        assert each.advantage is not None
