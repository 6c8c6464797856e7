# SPDX-License-Identifier: Apache-2.0
"""`ScriptedProvider`: a provider that says what a test tells it to, right or wrong."""

from __future__ import annotations

from typing import Any

import pytest

from posttrain.errors import RewardContractError, RewardUnavailableError
from posttrain.rewards import ProviderExecution, RewardGroupRequest, RewardGroupResult, RewardWorker
from posttrain.schema import Observation, Trajectory
from posttrain.testing import ScriptedProvider


def groups(*names: str) -> list[Trajectory]:
    """Two candidates for each group."""
    return [
        Trajectory(
            trajectory_id=f"{name}/{at}",
            group_id=name,
            obs=Observation(id=name, prompt="p", reference="r"),
            completion="x",
        )
        for name in names
        for at in range(2)
    ]


def worker_of(provider: ScriptedProvider, **spec: Any) -> RewardWorker:
    """A worker for groups of two."""
    return RewardWorker(catalog={"scripted": provider.spec(**spec)}, reward="scripted", group_size=2)


def test_each_group_has_its_script() -> None:
    """Values are given per candidate, in order; a group without a script of its own gets the other one."""
    provider = ScriptedProvider({"a": [1.0, 0.25]}, term="quality", otherwise=(0.5, 0.75))
    batch = groups("a", "b")
    worker_of(provider).score(batch)
    assert [each.reward for each in batch] == [
        {"quality": 1.0, "final": 1.0},
        {"quality": 0.25, "final": 0.25},
        {"quality": 0.5, "final": 0.5},
        {"quality": 0.75, "final": 0.75},
    ]


def test_requests_are_remembered() -> None:
    """Every request, in the order of the calls, with the inputs that the spec declares."""
    provider = ScriptedProvider(otherwise=[0.0, 0.0])
    worker = worker_of(provider, needs=("reference",))
    worker.score(groups("b", "a"))
    worker.score(groups("c"))
    assert [each.group_id for each in provider.requests] == ["b", "a", "c"]
    assert provider.requests[0].context.reference == "r"
    assert provider.requests[0].context.prompt is None


def test_a_group_without_a_script_is_refused() -> None:
    """A test that forgot a group hears of it."""
    with pytest.raises(RewardContractError, match="no script for group 'a'"):
        worker_of(ScriptedProvider({"b": [1.0, 1.0]})).score(groups("a"))


def test_a_script_can_raise() -> None:
    """An exception is raised each time, and keeps its kind."""
    worker = worker_of(ScriptedProvider({"a": RewardUnavailableError("503"), "b": KeyError("k")}))
    for _ in range(2):
        with pytest.raises(RewardUnavailableError, match="503") as raised:
            worker.score(groups("a"))
        assert raised.value.group_id == "a"
    with pytest.raises(RewardContractError, match="raised KeyError"):
        worker.score(groups("b"))


def test_a_script_can_interrupt() -> None:
    """Exceptions that are no errors pass through as well."""
    with pytest.raises(KeyboardInterrupt, match="now"):
        worker_of(ScriptedProvider({"a": KeyboardInterrupt("now")})).score(groups("a"))


def test_a_script_can_be_a_function() -> None:
    """It is given the request, and what it answers is passed on unchecked."""

    def answer(request: RewardGroupRequest) -> RewardGroupResult:
        return RewardGroupResult(request.group_id, ())

    worker = worker_of(ScriptedProvider({"a": answer, "b": lambda _: 0.5}))
    with pytest.raises(RewardContractError, match="the result has 0 items for 2 candidates"):
        worker.score(groups("a"))
    with pytest.raises(RewardContractError, match=r"evaluate returned 0\.5"):
        worker.score(groups("b"))


@pytest.mark.parametrize("values", [[1.0], [], [1.0, float("nan")], [1.0, True], [1.0, None]])
def test_wrong_values_reach_the_check(values: list[Any]) -> None:
    """Too few of them, and none that is a number, are refused by the stage, not by the script."""
    with pytest.raises(RewardContractError, match=r"items for 2 candidates|expected one finite number"):
        worker_of(ScriptedProvider({"a": values})).score(groups("a"))


def test_more_values_than_candidates_are_left_over() -> None:
    """A long script serves groups of any size."""
    batch = groups("a")
    worker_of(ScriptedProvider({"a": [0.0, 1.0, 2.0]})).score(batch)
    assert [each.reward["final"] for each in batch] == [0.0, 1.0]


def test_its_life_is_counted() -> None:
    """A worker opens and closes it once around its work."""
    provider = ScriptedProvider(otherwise=[0.0, 0.0])
    with worker_of(provider) as worker:
        worker.score(groups("a"))
        worker.score(groups("b"))
        assert (provider.opened, provider.closed) == (1, 0)
    assert (provider.opened, provider.closed) == (1, 1)


def test_the_spec_is_as_asked_for() -> None:
    """Needs, diagnostics, revision and traits are those that a test wants, and the factory gives this very object."""
    provider = ScriptedProvider(term="t")
    traits = ProviderExecution(groups_in_flight=4, repeatable=True)
    spec = provider.spec(needs=("prompt",), diagnostics=("calls",), revision="7", execution=traits)
    assert (spec.terms, spec.needs, spec.diagnostics) == (("t",), ("prompt",), ("calls",))
    assert (spec.revision, spec.execution) == ("7", traits)
    assert spec.factory() is provider
