# SPDX-License-Identifier: Apache-2.0
"""The fast passes of the check and its slow walk give one verdict on any result, and it is the right one."""

from __future__ import annotations

import functools
import math
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain.errors import RewardContractError
from posttrain.rewards.contract.check import check_result
from posttrain.rewards.contract.pointwise import map_candidates
from posttrain.rewards.contract.request import RewardCandidate, RewardContext, RewardGroupRequest
from posttrain.rewards.contract.result import RewardCandidateResult, RewardGroupResult, RewardProviderResult
from posttrain.rewards.contract.spec import RewardProviderSpec
from posttrain.rewards.metrics.contribution import MetricContribution
from strategies import group_results

IDS = ("t0", "t1", "t2")
TERMS = {1: ("task",), 2: ("task", "style")}
DIAGNOSTICS = ("calls", "tokens")

Verdict: TypeAlias = tuple[Any, ...]


def _score(candidate: RewardCandidate, context: RewardContext) -> RewardProviderResult:
    return RewardProviderResult({"task": 1.0})


def _verdict(terms: tuple[str, ...], result: RewardGroupResult) -> Verdict:
    """What the check says of a result, in a form that tells -0.0 from 0.0."""
    factory = functools.partial(map_candidates, _score)
    spec = RewardProviderSpec(factory=factory, revision="1", terms=terms, diagnostics=DIAGNOSTICS)
    request = RewardGroupRequest("g", tuple(RewardCandidate(each, "text") for each in IDS), RewardContext())
    try:
        columns, diagnostics = check_result(spec, request, result)
    except RewardContractError as error:
        return "refused", error.message, error.trajectory_id
    return "accepted", {term: [value.hex() for value in column] for term, column in columns.items()}, diagnostics


class _Row(dict[Any, Any]):
    """A mapping that is no plain dict, so that no fast pass takes it."""

    def __repr__(self) -> str:
        return dict.__repr__(self)


class _Item(RewardCandidateResult, frozen=True):
    """An item that no fast pass takes."""


class _Scores(RewardProviderResult, frozen=True):
    """A candidate's result that no fast pass takes."""


def _slow_twin(result: RewardGroupResult) -> RewardGroupResult:
    """The same result in types that are only walked slowly."""

    def scores(it: Any) -> Any:
        if not isinstance(it, RewardProviderResult):
            return it
        terms, diagnostics = (_Row(each) if isinstance(each, dict) else each for each in (it.terms, it.diagnostics))
        return _Scores(terms, diagnostics)  # type: ignore[arg-type]  # either may be of any type

    return RewardGroupResult("g", tuple(_Item(each.trajectory_id, scores(each.result)) for each in result.items))


@pytest.mark.parametrize("count", [1, 2], ids=["one term", "two terms"])
@settings(max_examples=400)
@given(st.data())
def test_fast_and_slow_paths_agree(count: int, data: st.DataObject) -> None:
    """A result and its twin in types that bypass every shortcut are both accepted with the same bits, or both refused.

    So no shortcut accepts what the slow walk refuses, refuses what it accepts, or names other offenders.
    """
    result = data.draw(group_results(IDS, TERMS[count], DIAGNOSTICS))
    assert _verdict(TERMS[count], result) == _verdict(TERMS[count], _slow_twin(result))


def _is_number(value: Any) -> bool:
    """Whether a value that the strategies draw is one real finite number."""
    if isinstance(value, np.ma.core.MaskedConstant):
        return False
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind == "f" and math.isfinite(value)
    if isinstance(value, (bool, np.bool_, str, bytes, complex, np.timedelta64)):
        return False
    try:
        return math.isfinite(value) and not hasattr(value, "as_tuple")  # a Decimal has one
    except (TypeError, OverflowError):
        return False


def _keeps_the_contract(terms: tuple[str, ...], result: RewardGroupResult) -> bool:
    """The contract in its own words, without a thought for speed or for messages."""
    ids: list[Any] = [item.trajectory_id for item in result.items]
    kinds: dict[str, set[str]] = {name: set() for name in DIAGNOSTICS}
    for item in result.items:
        scores: Any = item.result
        if not isinstance(scores, RewardProviderResult):
            return False
        if not isinstance(scores.terms, dict) or not isinstance(scores.diagnostics, dict):
            return False
        if set(scores.terms) != set(terms) or not all(map(_is_number, scores.terms.values())):
            return False
        for name, each in scores.diagnostics.items():
            if name not in kinds or not isinstance(each, MetricContribution):
                return False
            if each.kind == "mean" and not each.weight:
                return False
            kinds[name].add(each.kind)
    return ids == list(IDS) and all(len(met) < 2 for met in kinds.values())


@pytest.mark.parametrize("count", [1, 2], ids=["one term", "two terms"])
@settings(max_examples=400)
@given(st.data())
def test_exactly_what_keeps_the_contract_is_accepted(count: int, data: st.DataObject) -> None:
    """The verdict is that of the contract read word for word, and accepted values are the ones that were returned."""
    result = data.draw(group_results(IDS, TERMS[count], DIAGNOSTICS))
    verdict = _verdict(TERMS[count], result)
    assert (verdict[0] == "accepted") == _keeps_the_contract(TERMS[count], result)
    if verdict[0] == "accepted":
        assert verdict[1] == {
            term: [float(item.result.terms[term]).hex() for item in result.items] for term in TERMS[count]
        }


def test_the_strategy_draws_both_sides() -> None:
    """Among the drawn results there are enough of each verdict for the properties to mean something."""
    verdicts: list[str] = []

    @settings(max_examples=300)
    @given(group_results(IDS, TERMS[1], DIAGNOSTICS))
    def draw(result: RewardGroupResult) -> None:
        verdicts.append(_verdict(TERMS[1], result)[0])

    draw()
    assert verdicts.count("accepted") > 30
    assert verdicts.count("refused") > 30
