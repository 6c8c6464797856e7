# SPDX-License-Identifier: Apache-2.0
"""Group after group or in threads, the outcome is the same; a failure stops what has not started."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.errors import RewardConfigError, RewardContractError, RewardError, RewardUnavailableError
from posttrain.rewards import (
    MetricContribution,
    ProviderExecution,
    RewardCandidateResult,
    RewardGroupRequest,
    RewardGroupResult,
    RewardOutcome,
    RewardProviderResult,
    RewardProviderSpec,
    RewardWorker,
)
from posttrain.schema import Trajectory
from strategies import finite_floats

Batch = Callable[..., list[Trajectory]]
Spec = Callable[..., RewardProviderSpec]
ReadOff = Callable[..., RewardGroupResult]
Failures = dict[str, dict[str, Exception]]

LIMITS = [(1, 1, 1), (2, 1, 1), (1, 3, 1), (1, 2, 4), (3, 3, 3)]
"""Groups in flight of three providers: none in threads, some, all."""


def _bits(outcome: RewardOutcome) -> tuple[object, ...]:
    """All of an outcome but its timings."""
    return repr(outcome.groups), outcome.terms, outcome.report.dropped, sorted(outcome.report.metrics().items())


@pytest.fixture(scope="session")
def three(spec_of: Spec, read_off: ReadOff) -> Callable[..., RewardWorker]:
    """A worker of the providers ``a``, ``b`` and ``c``, one term each of that name, with the failures that are given.

    `calls`, where given, collects provider and group of each call.
    """

    def make(
        limits: tuple[int, int, int] = (1, 1, 1),
        failures: Failures | None = None,
        calls: list[str] | None = None,
        **settings: Any,
    ) -> RewardWorker:
        def provider(name: str, limit: int) -> RewardProviderSpec:
            def evaluate(request: RewardGroupRequest) -> Any:
                if calls is not None:
                    calls.append(f"{name} {request.group_id}")
                if (failure := (failures or {}).get(name, {}).get(request.group_id)) is not None:
                    raise failure
                honest = read_off(request, name)
                items = [
                    RewardCandidateResult(
                        item.trajectory_id,
                        RewardProviderResult(
                            item.result.terms, {"it": MetricContribution.mean(item.result.terms[name])}
                        ),
                    )
                    for item in honest.items
                ]
                return RewardGroupResult(request.group_id, tuple(items))

            execution = ProviderExecution(groups_in_flight=limit)
            return spec_of(name, evaluate=evaluate, execution=execution, diagnostics=("it",))

        catalog = {name: provider(name, limit) for name, limit in zip("abc", limits, strict=True)}
        defaults = {"group_size": 2, "weights": {"a": 1.0, "b": 0.5, "c": -2.0}}
        return RewardWorker(catalog=catalog, reward=("a", "b", "c"), **{**defaults, **settings})

    return make


Three = Callable[..., RewardWorker]


@st.composite
def tables(draw: st.DrawFn) -> tuple[dict[str, list[dict[str, float]]], dict[str, dict[str, bool]]]:
    """Worths of a batch in three terms, and for each provider the groups for which it is unavailable."""
    names = [f"g{number}" for number in range(draw(st.integers(1, 6)))]
    worth = st.fixed_dictionaries(dict.fromkeys("abc", st.floats(-1e6, 1e6)))
    worths = {name: draw(st.lists(worth, min_size=2, max_size=2)) for name in names}
    lost = {provider: {name: draw(st.integers(0, 4)) == 0 for name in names} for provider in "abc"}
    return worths, lost


@given(table=tables(), limits=st.sampled_from(LIMITS[1:]))
def test_threads_change_no_bit(
    three: Three,
    batch_of: Batch,
    table: tuple[dict[str, list[dict[str, float]]], dict[str, dict[str, bool]]],
    limits: tuple[int, int, int],
) -> None:
    """Any mixture of threads gives the outcome of one group after the other, dropped groups and causes included."""
    worths, lost = table
    failures: Failures = {
        provider: {name: RewardUnavailableError(f"{provider} is down") for name, is_lost in groups.items() if is_lost}
        for provider, groups in lost.items()
    }
    told = []
    for chosen in (LIMITS[0], limits):
        worker = three(chosen, failures, on_unavailable="drop_group", max_dropped_fraction=1.0)
        try:
            told.append(_bits(worker.compute(batch_of(worths))))
        except RewardUnavailableError as error:
            told.append((str(error),))
    assert told[0] == told[1]


@pytest.mark.parametrize("limits", LIMITS)
def test_a_group_is_dropped_for_its_first_provider(three: Three, batch_of: Batch, limits: tuple[int, int, int]) -> None:
    """Where two providers are unavailable for one group, it counts once, for the first that was selected."""
    failures = {
        "b": {"g1": RewardUnavailableError("b is down")},
        "c": {"g1": RewardUnavailableError("c is down"), "g3": RewardUnavailableError("c is down")},
    }
    worker = three(limits, failures, on_unavailable="drop_group", max_dropped_fraction=0.5)
    worth = [{"a": 1.0, "b": 2.0, "c": 3.0}] * 2
    outcome = worker.compute(batch_of({f"g{number}": worth for number in range(4)}))
    assert [group.dropped_because for group in outcome.groups] == [
        None,
        "b: RewardUnavailableError",
        None,
        "c: RewardUnavailableError",
    ]
    assert outcome.report.dropped == {"b: RewardUnavailableError": 1, "c: RewardUnavailableError": 1}
    # Of a dropped group nothing is reported but that it was dropped: two groups of two are left.
    assert {name: provider.sample_count for name, provider in outcome.report.providers.items()} == dict.fromkeys(
        "abc", 4
    )


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("fault", [RewardContractError("bad"), RewardConfigError("bad key"), ValueError("odd")])
def test_a_dropped_group_hides_no_fault(
    three: Three, batch_of: Batch, limits: tuple[int, int, int], fault: Exception
) -> None:
    """When one provider is unavailable for a group and a later one is at fault there, the fault fails the batch."""
    failures: Failures = {"a": {"g0": RewardUnavailableError("a is down")}, "c": {"g0": fault}}
    worker = three(limits, failures, on_unavailable="drop_group", max_dropped_fraction=1.0)
    worth = [{"a": 1.0, "b": 2.0, "c": 3.0}] * 2
    with pytest.raises(RewardError, match=r"^provider 'c', group 'g0': .*(bad|odd)"):
        worker.compute(batch_of({"g0": worth, "g1": worth}))


def test_groups_come_one_after_the_other(three: Three, batch_of: Batch) -> None:
    """With one group in flight each group is scored by every provider before the next one starts."""
    calls: list[str] = []
    worth = [{"a": 1.0, "b": 2.0, "c": 3.0}] * 2
    three(calls=calls).compute(batch_of({"g0": worth, "g1": worth}))
    assert calls == ["a g0", "b g0", "c g0", "a g1", "b g1", "c g1"]


@pytest.mark.parametrize("policy", ["fail", "drop_group"])
def test_after_a_failure_nothing_starts(three: Three, batch_of: Batch, policy: str) -> None:
    """A failure that counts ends the batch: neither a later provider nor a later group is asked."""
    calls: list[str] = []
    worker = three(failures={"b": {"g1": RewardContractError("bad")}}, calls=calls, on_unavailable=policy)
    worth = [{"a": 1.0, "b": 2.0, "c": 3.0}] * 2
    with pytest.raises(RewardContractError, match=r"^provider 'b', group 'g1': bad"):
        worker.compute(batch_of({f"g{number}": worth for number in range(5)}))
    assert calls == ["a g0", "b g0", "c g0", "a g1", "b g1"]


def test_an_unavailable_group_ends_the_batch_unless_it_is_dropped(three: Three, batch_of: Batch) -> None:
    """Under the default policy an unavailable service is a failure like any other."""
    calls: list[str] = []
    worker = three(failures={"a": {"g1": RewardUnavailableError("down")}}, calls=calls)
    worth = [{"a": 1.0, "b": 2.0, "c": 3.0}] * 2
    with pytest.raises(RewardUnavailableError, match=r"^provider 'a', group 'g1': down"):
        worker.compute(batch_of({f"g{number}": worth for number in range(5)}))
    assert calls == ["a g0", "b g0", "c g0", "a g1"]


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("provider", ["a", "b", "c"])
def test_by_default_no_thread_drops_a_group(
    three: Three, batch_of: Batch, limits: tuple[int, int, int], provider: str
) -> None:
    """Whatever runs in threads, an unavailable group fails the batch unless the policy is to drop it."""
    worker = three(limits, {provider: {"g1": RewardUnavailableError("down")}}, max_dropped_fraction=1.0)
    worth = [{"a": 1.0, "b": 2.0, "c": 3.0}] * 2
    with pytest.raises(RewardUnavailableError, match=rf"^provider '{provider}', group 'g1': down"):
        worker.compute(batch_of({f"g{number}": worth for number in range(5)}))


@pytest.mark.parametrize("limits", LIMITS)
def test_an_error_carries_its_request(three: Three, batch_of: Batch, limits: tuple[int, int, int]) -> None:
    """What failed can be repeated: the error holds the frozen request, with what that provider was given."""
    worker = three(limits, {"b": {"g1": ValueError("odd")}})
    worth = [{"a": 1.0, "b": 2.0, "c": 3.0}] * 2
    with pytest.raises(RewardContractError, match="raised ValueError: odd") as caught:
        worker.compute(batch_of({"g0": worth, "g1": worth}))
    assert caught.value.request.group_id == "g1"
    assert [each.trajectory_id for each in caught.value.request.candidates] == ["g1/0", "g1/1"]
    assert type(caught.value.__cause__) is ValueError
    assert (caught.value.cause_type, caught.value.cause_text) == ("ValueError", "odd")


@pytest.mark.parametrize("value", [0, -1, 1.0, True, "2"])
def test_groups_in_flight_is_a_positive_int(three: Three, value: Any) -> None:
    """A bound of another type or range is refused with what came."""
    with pytest.raises(RewardConfigError, match=re.escape("groups_in_flight: expected an int of at least 1, got ")):
        three(groups_in_flight=value)


@given(scores=st.lists(finite_floats, min_size=2, max_size=2))
def test_scores_arrive_as_they_were_given(three: Three, batch_of: Batch, scores: list[float]) -> None:
    """No thread and no check changes a bit of a score, subnormals and the sign of zero included."""
    worth = [{"a": score, "b": score, "c": score} for score in scores]
    for limits in (LIMITS[0], LIMITS[-1]):
        worker = three(limits, weights={"b": 0.0, "c": 0.0})
        (group,) = worker.compute(batch_of({"g": worth})).groups
        for term in "abc":
            assert [value.hex() for value in group.terms[term]] == [score.hex() for score in scores]
