# SPDX-License-Identifier: Apache-2.0
"""A function that scores one candidate, lifted to the group contract."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.errors import RewardConfigError, RewardContractError, RewardError, RewardUnavailableError
from posttrain.frozen import freeze
from posttrain.rewards.contract.pointwise import map_candidates
from posttrain.rewards.contract.provider import ManagedRewardProvider, RewardProvider
from posttrain.rewards.contract.request import RewardCandidate, RewardContext, RewardGroupRequest
from posttrain.rewards.contract.result import RewardProviderResult


def _request(*completions: str) -> RewardGroupRequest:
    candidates = tuple(RewardCandidate(f"t{index}", completion) for index, completion in enumerate(completions))
    return RewardGroupRequest("g", candidates, RewardContext(reference=freeze({"target": 3})))


def _length(candidate: RewardCandidate, context: RewardContext) -> RewardProviderResult:
    return RewardProviderResult({"length": float(len(candidate.completion))})


class _Scripted:
    """A scorer that raises what its script holds for a completion, and counts how often each candidate is asked."""

    def __init__(self, **script: BaseException) -> None:
        self.script = script
        self.asked: list[str] = []

    def __call__(self, candidate: RewardCandidate, context: RewardContext) -> RewardProviderResult:
        self.asked.append(candidate.trajectory_id)
        if (failure := self.script.get(candidate.completion)) is not None:
            raise failure
        return RewardProviderResult({"task": 1.0})


def _failure(scorer: Callable[..., Any], *completions: str) -> RewardError:
    with pytest.raises(RewardError, match=r"^(trajectory 't\d+': |\d+ of \d+ candidates failed:\n)") as caught:
        map_candidates(scorer).evaluate(_request(*completions))
    return caught.value


@given(st.lists(st.text(max_size=5), min_size=1, max_size=8))
def test_each_candidate_is_scored_in_order_under_its_own_id(completions: list[str]) -> None:
    """One item per candidate, in the request's order, carrying that candidate's id and that candidate's score."""
    result = map_candidates(_length).evaluate(_request(*completions))
    assert result.group_id == "g"
    assert type(result.items) is tuple
    assert [item.trajectory_id for item in result.items] == [f"t{index}" for index in range(len(completions))]
    assert [item.result.terms["length"] for item in result.items] == [len(each) for each in completions]


def test_a_scorer_sees_the_candidate_and_the_common_inputs() -> None:
    """The very candidate and the very context of the request are handed over, each candidate once."""
    seen: list[tuple[RewardCandidate, RewardContext]] = []

    def scorer(candidate: RewardCandidate, context: RewardContext) -> RewardProviderResult:
        seen.append((candidate, context))
        return RewardProviderResult({"task": 0.0})

    request = _request("a", "b", "a")
    map_candidates(scorer).evaluate(request)
    assert [candidate for candidate, _ in seen] == list(request.candidates)
    assert all(context is request.context for _, context in seen)


def test_the_result_of_a_scorer_is_passed_on_untouched() -> None:
    """Whatever the scorer returns stands in its item: judging it is the boundary's work."""
    answers: list[Any] = [RewardProviderResult({"task": 1.0}), None, 0.5]
    remaining = iter(answers)
    result = map_candidates(lambda candidate, context: next(remaining)).evaluate(_request("a", "b", "c"))
    assert all(item.result is answer for item, answer in zip(result.items, answers, strict=True))


def test_one_failing_candidate_is_named() -> None:
    """The error names the candidate, says what was raised and keeps it as the cause."""
    broken = ValueError("no digits")
    failure = _failure(_Scripted(bad=broken), "good", "bad", "good")
    assert type(failure) is RewardContractError
    assert failure.trajectory_id == "t1"
    assert failure.message.startswith("raised ValueError: no digits (in __call__, line ")
    assert failure.__cause__ is broken
    assert (failure.cause_type, failure.cause_text) == ("ValueError", "no digits")


def test_an_author_s_own_error_is_raised_as_it_is() -> None:
    """A contract error of the author gains the candidate's name and keeps its message and its cause."""
    own = RewardContractError("needs a string reference")
    own.__cause__ = KeyError("reference")
    failure = _failure(_Scripted(bad=own), "good", "bad")
    assert failure is own
    assert str(failure) == "trajectory 't1': needs a string reference"
    assert isinstance(failure.__cause__, KeyError)
    assert failure.cause_type == "KeyError"


def test_several_failing_candidates_are_all_named_and_good_ones_absent() -> None:
    """One error lists each failing candidate with its own reason and counts them against the group."""
    scorer = _Scripted(bad=ValueError("no digits\nat all"), odd=RewardContractError("no closing tag"))
    failure = _failure(scorer, "good", "bad", "good", "odd", "bad", "good")
    assert type(failure) is RewardContractError
    assert failure.message.splitlines() == [
        "3 of 6 candidates failed:",
        "  t1: raised ValueError: no digits",
        "  t3: no closing tag",
        "  t4: raised ValueError: no digits",
    ]
    assert failure.trajectory_id is None
    assert isinstance(failure.__cause__, ValueError)
    assert failure.cause_type == "ValueError"
    assert scorer.asked == ["t0", "t1", "t2", "t3", "t4", "t5"]


@given(st.lists(st.sampled_from(["good", "bad"]), min_size=1, max_size=12))
def test_each_candidate_is_asked_exactly_once_whoever_fails(completions: list[str]) -> None:
    """A failing candidate is not asked again and keeps no other from being asked."""
    scorer = _Scripted(bad=ValueError("v"))
    provider = map_candidates(scorer)
    if "bad" in completions:
        with pytest.raises(RewardContractError, match="raised ValueError: v") as caught:
            provider.evaluate(_request(*completions))
        named = [f"t{index}" for index, each in enumerate(completions) if each == "bad"]
        lines = caught.value.message.splitlines()
        found = (
            [line.strip().partition(":")[0] for line in lines[1:]] if len(named) > 1 else [caught.value.trajectory_id]
        )
        assert found == named
    else:
        assert len(provider.evaluate(_request(*completions)).items) == len(completions)
    assert scorer.asked == [f"t{index}" for index in range(len(completions))]


@pytest.mark.parametrize("kind", [RewardUnavailableError, RewardConfigError])
def test_an_outside_failure_ends_the_group_at_once(kind: type[RewardError]) -> None:
    """A dead or wrongly set up service is not asked again for the rest, whatever failed before it."""
    scorer = _Scripted(bad=ValueError("v"), down=kind("the judge did not answer"))
    failure = _failure(scorer, "good", "bad", "down", "good", "down")
    assert failure is scorer.script["down"]
    assert str(failure) == "trajectory 't2': the judge did not answer"
    assert scorer.asked == ["t0", "t1", "t2"]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit])
def test_interrupts_and_cancellation_pass_through(kind: type[BaseException]) -> None:
    """They are nobody's failure: the very object comes out, and no later candidate is asked."""
    interrupt = kind("stop")
    scorer = _Scripted(bad=ValueError("v"), stop=interrupt)
    with pytest.raises(kind, match="stop") as caught:
        map_candidates(scorer).evaluate(_request("bad", "stop", "good"))
    assert caught.value is interrupt
    assert scorer.asked == ["t0", "t1"]


def test_a_failure_survives_pickling(pickled: Callable[..., Any]) -> None:
    """Raised in a worker, the error arrives with the candidates' names and the cause's text."""
    failure = _failure(_Scripted(bad=ValueError("no digits")), "bad", "bad")
    back = pickled(failure)
    assert back.message == failure.message
    headline, *lines = back.message.splitlines()
    assert headline == "2 of 2 candidates failed:"
    assert [line.partition(" (in ")[0] for line in lines] == [
        "  t0: raised ValueError: no digits",
        "  t1: raised ValueError: no digits",
    ]
    assert (back.cause_type, back.cause_text) == ("ValueError", "no digits")


def test_a_provider_can_be_used_again_after_a_failure() -> None:
    """Nothing of a failed group stays behind in the provider."""
    provider = map_candidates(_Scripted(bad=ValueError("v")))
    with pytest.raises(RewardContractError, match="raised ValueError"):
        provider.evaluate(_request("bad", "good"))
    assert [item.trajectory_id for item in provider.evaluate(_request("good", "good")).items] == ["t0", "t1"]


def test_one_error_object_raised_for_every_candidate_names_them_all() -> None:
    """A scorer that raises a module-level exception object fails each candidate under that candidate's name."""
    failure = _failure(_Scripted(bad=RewardContractError("same")), "bad", "good", "bad")
    assert failure.message.splitlines()[1:] == ["  t0: same", "  t2: same"]


def test_one_error_object_raised_in_two_groups_names_the_second_group_s_candidate() -> None:
    """What the object was told about an earlier group says nothing about a later one."""
    scorer = _Scripted(down=RewardUnavailableError("down"))
    assert _failure(scorer, "down").trajectory_id == "t0"
    assert _failure(scorer, "good", "down").trajectory_id == "t1"


def test_candidates_that_fail_without_a_message_are_named() -> None:
    """Two candidates whose errors say nothing are still listed by name."""
    failure = _failure(_Scripted(bad=RewardContractError("")), "bad", "bad")
    assert failure.message.startswith("2 of 2 candidates failed:\n  t0:")


class _Unprintable(Exception):  # noqa: N818  # a name that says what it does
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_an_exception_without_text_fails_its_candidate_only() -> None:
    """The group still ends in a contract error that names the candidate."""
    assert _failure(_Scripted(bad=_Unprintable()), "good", "bad").trajectory_id == "t1"


@pytest.mark.parametrize("scorer", [None, 1.0, "module:scorer"], ids=repr)
def test_what_is_no_function_is_refused_when_lifted(scorer: Any) -> None:
    """The mistake shows when the provider is made, not at the first group."""
    with pytest.raises(RewardContractError, match=r"map_candidates takes a function \(candidate, context\), got "):
        map_candidates(scorer)


def test_a_lifted_scorer_is_a_provider_without_a_life() -> None:
    """It satisfies the provider protocol, is not managed, and partial(map_candidates, scorer) is a factory of it."""
    provider = functools.partial(map_candidates, _length)()
    assert isinstance(provider, RewardProvider)
    assert not isinstance(provider, ManagedRewardProvider)
    assert repr(provider) == "map_candidates(_length)"
    assert repr(map_candidates(functools.partial(_length))).startswith("map_candidates(functools.partial(")


def test_a_cancellation_passes_through_untouched() -> None:
    """A future that was cancelled inside a scorer is no fault of the scorer's, and no other candidate is tried."""
    asked: list[str] = []

    def scorer(candidate: RewardCandidate, _: RewardContext) -> RewardProviderResult:
        asked.append(candidate.trajectory_id)
        raise CancelledError("stopped")

    with pytest.raises(CancelledError, match="stopped"):
        map_candidates(scorer).evaluate(_request("a", "b"))
    assert len(asked) == 1
