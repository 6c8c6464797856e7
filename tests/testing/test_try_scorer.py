# SPDX-License-Identifier: Apache-2.0
"""`try_scorer`: the scores of some texts in one line, with the refusals of the stage."""

from __future__ import annotations

from typing import Any

import pytest

from posttrain.errors import RewardConfigError, RewardContractError, RewardUnavailableError
from posttrain.frozen import Json
from posttrain.rewards import MetricContribution, RewardCandidate, RewardContext, RewardProviderResult
from posttrain.testing import try_scorer

HELD: list[tuple[RewardCandidate, RewardContext]] = []


def mentions(candidate: RewardCandidate, context: RewardContext) -> RewardProviderResult:
    """Whether the reference stands in the completion, and how long the completion is."""
    HELD.append((candidate, context))
    reference = context.reference
    assert isinstance(reference, str)
    return RewardProviderResult(
        {"task": float(reference in candidate.completion), "length": len(candidate.completion)},
        {"calls": MetricContribution.total(1.0)},
    )


def returning(value: Any) -> Any:
    """A scorer that returns this for every candidate."""
    return lambda candidate, context: value


def test_the_terms_of_each_completion() -> None:
    """In order, every term, as plain floats; diagnostics are checked and left out."""
    scores = try_scorer(mentions, ["Paris", "Rome", ""], reference="Paris")
    assert scores == [{"task": 1.0, "length": 5.0}, {"task": 0.0, "length": 4.0}, {"task": 0.0, "length": 0.0}]
    assert {type(value) for row in scores for value in row.values()} == {float}


def test_what_the_scorer_sees() -> None:
    """Ids count from 0; prompt and reference are frozen; the verdict is that of every candidate."""
    HELD.clear()
    prompt: Json = [{"role": "user"}]
    try_scorer(mentions, ["a", "b"], reference="Paris", prompt=prompt, finish_reason="length")
    candidates, contexts = zip(*HELD, strict=True)
    assert [each.trajectory_id for each in candidates] == ["0", "1"]
    assert all(each.is_length_truncated and each.completion_token_count is None for each in candidates)
    assert contexts[0].prompt == ({"role": "user"},)
    with pytest.raises(TypeError, match=r"frozen|read-only"):
        contexts[0].prompt[0]["role"] = "system"
    HELD.clear()
    try_scorer(mentions, ["a"], reference="Paris")
    assert HELD[0][0].finish_reason == "stop"
    assert HELD[0][1].prompt is None


def test_no_completions_have_no_scores() -> None:
    """An empty list is fine, and the scorer is not called."""
    assert try_scorer(mentions, [], reference="Paris") == []


def test_other_numbers_become_floats() -> None:
    """Numbers of numpy come out as Python's."""
    np = pytest.importorskip("numpy")
    scores = try_scorer(returning(RewardProviderResult({"task": np.float32(0.5)})), ["a"])
    assert scores == [{"task": 0.5}]
    assert type(scores[0]["task"]) is float


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "0: None, expected a RewardProviderResult"),
        (1.0, "expected a RewardProviderResult"),
        ({"task": 1.0}, "expected a RewardProviderResult"),
        (RewardProviderResult({"task": True}), r"got True \(bool\): write float\(ok\)"),
        (RewardProviderResult({"task": float("nan")}), "expected one finite number, got nan"),
        (RewardProviderResult({"task": "1"}), "expected one finite number, got '1'"),  # type: ignore[dict-item]  # the mistake
        (RewardProviderResult({}), "is missing"),
        (RewardProviderResult(None), "terms is None, expected a mapping"),  # type: ignore[arg-type]  # the mistake
        (RewardProviderResult(0.5), r"terms is 0\.5 \(float\), expected a mapping"),  # type: ignore[arg-type]  # as above
        (RewardProviderResult({"task": 1.0}, None), "diagnostics is None"),  # type: ignore[arg-type]  # as above
        (RewardProviderResult({"task": 1.0}, {"calls": 1}), r"write MetricContribution\.mean"),  # type: ignore[dict-item]  # as above
    ],
)
def test_what_the_stage_refuses(value: Any, message: str) -> None:
    """A result that breaks the contract is the same error as in a run, for every candidate at once."""
    with pytest.raises(RewardContractError, match=message) as raised:
        try_scorer(returning(value), ["a", "b"])
    assert "1: " in raised.value.message


@pytest.mark.parametrize("name", ["final", "sample_count", "a b", ""])
def test_names_that_no_spec_could_declare(name: str) -> None:
    """A term's name is checked as a spec checks it."""
    with pytest.raises(RewardConfigError, match="term name"):
        try_scorer(returning(RewardProviderResult({name: 1.0})), ["a"])


def test_terms_that_differ() -> None:
    """Each candidate has the same terms; the one that has others is named."""

    def uneven(candidate: RewardCandidate, context: RewardContext) -> RewardProviderResult:
        return RewardProviderResult({"task": 1.0} if candidate.completion else {"task": 1.0, "empty": 1.0})

    with pytest.raises(RewardContractError, match=r"'empty'.* is not declared") as raised:
        try_scorer(uneven, ["a", "", "b"])
    assert raised.value.trajectory_id == "1"


def test_an_exception_names_the_candidate() -> None:
    """What the scorer raises is a contract error with its cause; an unavailable service stays one."""
    with pytest.raises(RewardContractError, match="raised AssertionError") as raised:
        try_scorer(mentions, ["a"], reference=7)
    assert raised.value.trajectory_id == "0"
    assert isinstance(raised.value.__cause__, AssertionError)

    def down(candidate: RewardCandidate, context: RewardContext) -> RewardProviderResult:
        raise RewardUnavailableError("503")

    with pytest.raises(RewardUnavailableError, match="503"):
        try_scorer(down, ["a"])


@pytest.mark.parametrize("completions", ["Paris", [None], ["a", 1], 7, None, (each for each in "ab"), {"a"}])
def test_completions_that_are_no_texts(completions: Any) -> None:
    """One text in the place of a list would be taken letter by letter, and a generator would be empty by then."""
    with pytest.raises(RewardContractError, match="completions: expected a list of texts"):
        try_scorer(mentions, completions, reference="Paris")


@pytest.mark.parametrize("inputs", [{"reference": {1, 2}}, {"prompt": float("nan")}, {"reference": {1: 2}}])
def test_inputs_that_are_no_json(inputs: dict[str, Any]) -> None:
    """Prompt and reference are frozen as a row's are."""
    with pytest.raises(RewardContractError, match=r"not a JSON value:\n  (reference|prompt)"):
        try_scorer(mentions, ["a"], **inputs)


def test_a_scorer_that_is_none() -> None:
    """Something that can't be called, or only awaited, is told apart from a bad result."""
    with pytest.raises(RewardContractError, match="map_candidates takes a function"):
        try_scorer(None, ["a"])  # type: ignore[arg-type]  # the mistake under test

    async def later(candidate: RewardCandidate, context: RewardContext) -> RewardProviderResult:
        return RewardProviderResult({"task": 1.0})

    with pytest.raises(RewardContractError, match="drop the async"):
        try_scorer(later, ["a"])  # type: ignore[arg-type]  # the mistake under test
