# SPDX-License-Identifier: Apache-2.0
"""A route sends each group to the entry that its context names, with that entry's inputs and under its own checks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from posttrain.errors import RewardConfigError, RewardContractError, RewardError, RewardUnavailableError
from posttrain.frozen import freeze
from posttrain.rewards.contract.check import check_result
from posttrain.rewards.contract.provider import ManagedRewardProvider
from posttrain.rewards.contract.request import RewardCandidate, RewardContext, RewardGroupRequest
from posttrain.rewards.contract.result import RewardCandidateResult, RewardGroupResult, RewardProviderResult
from posttrain.rewards.contract.route import route
from posttrain.rewards.contract.spec import RewardProviderSpec
from posttrain.rewards.metrics.contribution import MetricContribution
from posttrain.rewards.stage.worker import RewardWorker
from posttrain.schema import Observation, Trajectory


class _Recorder:
    """Scores each completion by its length times a factor, and keeps every request that it was given."""

    def __init__(self, term: str = "length", factor: float = 1.0) -> None:
        self.term, self.factor = term, factor
        self.requests: list[RewardGroupRequest] = []

    def evaluate(self, request: RewardGroupRequest) -> RewardGroupResult:
        self.requests.append(request)
        return RewardGroupResult(
            request.group_id,
            tuple(
                RewardCandidateResult(
                    each.trajectory_id,
                    RewardProviderResult(
                        {self.term: self.factor * len(each.completion)},
                        {"words": MetricContribution.total(len(each.completion.split()))},
                    ),
                )
                for each in request.candidates
            ),
        )


def _entry(provider: Any = None, **fields: Any) -> RewardProviderSpec:
    """A spec whose factory gives that very provider, so that a test can look into it."""
    provider = _Recorder() if provider is None else provider
    terms, diagnostics = ("length",), ("words",) if isinstance(provider, _Recorder) else ()
    made: dict[str, Any] = {"factory": lambda: provider, "revision": "1", "terms": terms, "diagnostics": diagnostics}
    return RewardProviderSpec(**{**made, **fields})


def _by_task(context: RewardContext) -> str:
    prompt: Any = context.prompt
    return str(prompt["task"])


def _request(task: Any, *completions: str, group_id: str = "g") -> RewardGroupRequest:
    candidates = tuple(RewardCandidate(f"{group_id}-{index}", each) for index, each in enumerate(completions))
    context = RewardContext(prompt=freeze({"task": task}), reference=freeze(["answer"]))
    return RewardGroupRequest(group_id, candidates, context)


def test_each_group_goes_to_the_entry_that_its_context_names() -> None:
    """Groups are routed one by one; the entry sees the group's own id and candidates, and its values come out."""
    maths, code = _Recorder(), _Recorder(factor=10.0)
    spec = route(_by_task, {"maths": _entry(maths, needs=("prompt",)), "code": _entry(code)})
    provider = spec.factory()
    for task, group_id in (("code", "g1"), ("maths", "g2"), ("code", "g3")):
        request = _request(task, "ab", "abcd", group_id=group_id)
        columns, _ = check_result(spec, request, provider.evaluate(request))
        assert columns == {"length": (20.0, 40.0) if task == "code" else (2.0, 4.0)}
    assert [each.group_id for each in code.requests] == ["g1", "g3"]
    assert [each.group_id for each in maths.requests] == ["g2"]
    assert maths.requests[0].candidates == _request("maths", "ab", "abcd", group_id="g2").candidates


def test_the_key_is_asked_once_per_group() -> None:
    """All candidates of a group go to one entry, whatever the key would say the next time."""
    asked: list[RewardContext] = []

    def key(context: RewardContext) -> str:
        asked.append(context)
        return ("a", "b")[(len(asked) - 1) % 2]

    first, second = _Recorder(), _Recorder()
    provider = route(key, {"a": _entry(first), "b": _entry(second)}).factory()
    request = _request("x", "1", "2", "3")
    provider.evaluate(request)
    assert asked == [request.context]
    assert ([len(each.candidates) for each in first.requests], second.requests) == ([3], [])


@pytest.mark.parametrize(
    ("needs", "union"),
    [
        ([(), ()], ()),
        ([("prompt",), ()], ("prompt",)),
        ([("reference",), ("prompt",)], ("prompt", "reference")),
        ([("reference", "prompt"), ("reference",)], ("prompt", "reference")),
    ],
)
def test_a_route_needs_what_any_entry_needs(needs: list[tuple[str, ...]], union: tuple[str, ...]) -> None:
    """The union of the entries' inputs, in one fixed order."""
    entries = {f"e{index}": _entry(needs=each) for index, each in enumerate(needs)}
    assert route(_by_task, entries).needs == union


@pytest.mark.parametrize("needs", [(), ("prompt",), ("reference",), ("prompt", "reference")])
def test_an_entry_sees_only_the_inputs_that_it_declares(needs: tuple[str, ...]) -> None:
    """What another entry needs is None for this one, while the key sees all of it."""
    recorder = _Recorder()
    everything = _entry(needs=("prompt", "reference"))
    provider = route(_by_task, {"a": _entry(recorder, needs=needs), "b": everything}).factory()
    request = _request("a", "x")
    provider.evaluate(request)
    seen = recorder.requests[0].context
    assert seen.prompt == (request.context.prompt if "prompt" in needs else None)
    assert seen.reference == (request.context.reference if "reference" in needs else None)


@pytest.mark.parametrize(
    ("own", "given", "shared"),
    [
        (("length", "length"), None, "length"),
        (("length", "style"), None, "task"),
        (("length", "style"), "quality", "quality"),
        (("length", "length"), "quality", "quality"),
    ],
)
def test_all_entries_report_one_shared_term(own: tuple[str, str], given: str | None, shared: str) -> None:
    """The entries' common name, a given one, or `task`; the value is the entry's own."""
    entries = {name: _entry(_Recorder(term), terms=(term,)) for name, term in zip(("maths", "code"), own, strict=True)}
    spec = route(_by_task, entries, term=given)
    assert spec.terms == (shared,)
    for task in entries:
        request = _request(task, "abc")
        assert check_result(spec, request, spec.factory().evaluate(request))[0] == {shared: (3.0,)}


def test_diagnostics_carry_the_name_of_their_entry() -> None:
    """Each entry's own diagnostics and the mean of its term are declared by name; only the scoring entry's appear."""
    spec = route(_by_task, {"maths": _entry(), "code": _entry(_Recorder(factor=0.5), terms=("length",))})
    assert spec.diagnostics == ("code.score", "code.words", "maths.score", "maths.words")
    request = _request("code", "two words", "one")
    _, merged = check_result(spec, request, spec.factory().evaluate(request))
    # Lengths 9 and 3, halved: 4.5 and 1.5, mean 3. Words 2 and 1.
    assert {name: each.value for name, each in merged.items()} == {"code.score": 3.0, "code.words": 3.0}
    assert merged["code.score"].kind == "mean"


def test_scalars_of_an_entry_come_out_as_floats() -> None:
    """An entry may return numpy scalars, as any provider may."""
    half: Any = np.float32(0.5)
    spec = route(_by_task, {"a": _entry(_Recorder(factor=half))})
    request = _request("a", "abc")
    columns, merged = check_result(spec, request, spec.factory().evaluate(request))
    assert columns == {"length": (1.5,)}
    assert type(columns["length"][0]) is float
    assert merged["a.score"].value == 1.5


@pytest.mark.parametrize("name", ["nope", "", "Maths", None, 1, ["maths"], ("maths",)], ids=repr)
def test_a_name_that_no_entry_has_is_refused(name: Any) -> None:
    """The error says what the key named and which entries there are; no entry is asked."""
    recorder = _Recorder()
    provider = route(lambda context: name, {"maths": _entry(recorder), "code": _entry(recorder)}).factory()
    with pytest.raises(RewardContractError, match=r"the route's key named .*; the entries are code, maths$"):
        provider.evaluate(_request("x", "1"))
    assert recorder.requests == []


class _Scripted:
    """Returns or raises what it was given."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def evaluate(self, request: RewardGroupRequest) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def _notes(task: str, answer: Any, kind: type[Exception], match: str) -> tuple[Exception, list[str]]:
    provider = route(_by_task, {"maths": _entry(), "code": _entry(_Scripted(answer))}).factory()
    with pytest.raises(kind, match=match) as caught:
        provider.evaluate(_request(task, "1"))
    return caught.value, caught.value.__notes__


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        (None, "evaluate returned None"),
        (RewardGroupResult("g", ()), "missing: 'g-0'"),
        (
            RewardGroupResult("g", (RewardCandidateResult("g-0", RewardProviderResult({"style": 1.0})),)),
            "term 'length' is missing",
        ),
    ],
    ids=["nothing", "no items", "another term"],
)
def test_an_entry_s_bad_result_is_refused_under_its_own_spec(answer: Any, match: str) -> None:
    """The refusal speaks of the entry's own terms, not of the shared one, and names the entry."""
    _, notes = _notes("code", answer, RewardContractError, match)
    assert notes == ["scored by the route's entry 'code'"]


@pytest.mark.parametrize(
    "error",
    [RewardContractError("odd"), RewardUnavailableError("odd"), ValueError("odd")],
    ids=lambda it: type(it).__name__,
)
def test_an_error_of_an_entry_goes_on_as_it_is(error: Exception) -> None:
    """Whatever an entry raises keeps its kind, for the boundary to classify, and is noted with the entry's name."""
    raised, notes = _notes("code", error, type(error), "odd")
    assert raised is error
    assert notes == ["scored by the route's entry 'code'"]


class _Managed(_Recorder):
    """A provider with a life that writes a log, and fails to open or to close when told to."""

    def __init__(self, name: str, log: list[str], fails: str = "") -> None:
        super().__init__()
        self.name, self.log, self.fails = name, log, fails

    def open(self) -> None:
        self._do("open")

    def close(self) -> None:
        self._do("close")

    def _do(self, step: str) -> None:
        self.log.append(f"{step} {self.name}")
        if step == self.fails:
            raise OSError(f"{self.name} failed to {step}")


def _managed(log: list[str], **fails: str) -> Any:
    """A route over two managed entries and a plain one between them."""
    entries = {name: _entry(_Managed(name, log, fails.get(name, ""))) for name in ("a", "c")}
    return route(_by_task, {"a": entries["a"], "b": _entry(), "c": entries["c"]}).factory()


def test_managed_entries_share_the_route_s_life() -> None:
    """Opening the route opens those entries that have a life, closing it closes them, the last first; again works."""
    log: list[str] = []
    provider = _managed(log)
    assert isinstance(provider, ManagedRewardProvider)
    assert log == []
    provider.open()
    assert log == ["open a", "open c"]
    provider.evaluate(_request("b", "x"))
    provider.close()
    assert log == ["open a", "open c", "close c", "close a"]
    provider.close()
    assert len(log) == 4
    provider.open()
    provider.close()
    assert log[4:] == log[:4]


def test_an_entry_that_fails_to_open_closes_those_before_it() -> None:
    """Nothing stays half open: what was opened is closed, the failed one is not, and closing later does nothing."""
    log: list[str] = []
    provider = _managed(log, c="open")
    with pytest.raises(RewardContractError, match="c failed to open") as caught:
        provider.open()
    assert caught.value.__notes__ == ["while the route's entry 'c' was opened"]
    assert log == ["open a", "open c", "close a"]
    provider.close()
    assert len(log) == 3


def test_an_entry_that_fails_to_close_keeps_no_other_open() -> None:
    """Every entry is closed, and the failure is not lost."""
    log: list[str] = []
    provider = _managed(log, c="close")
    provider.open()
    with pytest.raises(RewardContractError, match="c failed to close") as caught:
        provider.close()
    assert caught.value.__notes__ == ["while the route's entry 'c' was closed"]
    assert log == ["open a", "open c", "close c", "close a"]


def test_two_providers_of_one_route_share_nothing() -> None:
    """Each call of the factory makes its entries anew."""
    made: list[_Recorder] = []

    def factory() -> _Recorder:
        made.append(_Recorder())
        return made[-1]

    spec = route(
        _by_task, {"a": RewardProviderSpec(factory=factory, revision="1", terms=("length",), diagnostics=["words"])}
    )
    assert made == []
    spec.factory().evaluate(_request("a", "x"))
    spec.factory().evaluate(_request("a", "x"))
    assert [len(each.requests) for each in made] == [1, 1]


def _constant(value: float, request: RewardGroupRequest) -> RewardGroupResult:
    items = [
        RewardCandidateResult(each.trajectory_id, RewardProviderResult({"paid": value})) for each in request.candidates
    ]
    return RewardGroupResult(request.group_id, tuple(items))


class _Pays:
    """Pays every candidate the same."""

    def __init__(self, value: float) -> None:
        self.evaluate: Callable[[RewardGroupRequest], RewardGroupResult] = functools.partial(_constant, value)


def test_a_mixed_batch_is_scored_through_the_worker() -> None:
    """In one batch each group gets its own task's scores, under the route's one provider name."""
    entries = {
        name: RewardProviderSpec(
            factory=functools.partial(_Pays, value), revision="1", terms=("paid",), needs=("prompt",)
        )
        for name, value in (("maths", 1.0), ("code", 3.0))
    }
    batch = [
        Trajectory(
            trajectory_id=f"{task}-{index}",
            group_id=task,
            obs=Observation(id=task, prompt={"task": task}),
            completion="text",
        )
        for index in range(2)
        for task in ("maths", "code")
    ]
    with RewardWorker(catalog={"mix": route(_by_task, entries)}, reward="mix", group_size=2) as worker:
        metrics = worker.score(batch).metrics()
    assert [each.reward for each in batch] == [{"paid": value, "final": value} for value in (1.0, 3.0, 1.0, 3.0)]
    assert metrics["train/reward_provider/mix/maths.score"] == 1.0
    assert metrics["train/reward_provider/mix/code.score"] == 3.0
    assert metrics["train/reward_provider/mix/sample_count"] == 4.0


def test_a_failing_group_is_named_with_the_route_s_own_name() -> None:
    """Through the worker the error carries the catalog's name of the route, the group, and the entry as a note."""
    catalog = {"mix": route(_by_task, {"code": _entry(_Scripted(ValueError("odd")), needs=("prompt",))})}
    batch = [
        Trajectory(trajectory_id="t", group_id="g", obs=Observation(id="g", prompt={"task": "code"}), completion="")
    ]
    with pytest.raises(RewardError, match=r"^provider 'mix', group 'g': raised ValueError: odd") as caught:
        RewardWorker(catalog=catalog, reward="mix", group_size=1).score(batch)
    assert caught.value.__cause__ is not None
    assert caught.value.__cause__.__notes__ == ["scored by the route's entry 'code'"]


def test_an_entry_that_breaks_the_contract_is_found_when_the_route_is_made() -> None:
    """An entry's provider is held to the same rules as a provider of the catalog, before any group."""

    class Late:
        async def evaluate(self, request: RewardGroupRequest) -> RewardGroupResult:
            raise AssertionError(request)

    late = RewardProviderSpec(factory=Late, revision="1", terms=("task",))  # type: ignore[arg-type]  # async on purpose
    spec = route(lambda _: "late", {"late": late})
    with pytest.raises(RewardConfigError, match=r"(?s)provider 'late'.*its evaluate is async"):
        spec.factory()
