# SPDX-License-Identifier: Apache-2.0
"""Diagnostics are declared, made by the constructors, of one kind each, and never touch the terms."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.errors import RewardContractError
from posttrain.rewards.contract.check import check_result
from posttrain.rewards.contract.pointwise import map_candidates
from posttrain.rewards.contract.request import RewardCandidate, RewardContext, RewardGroupRequest
from posttrain.rewards.contract.result import RewardCandidateResult, RewardGroupResult, RewardProviderResult
from posttrain.rewards.contract.spec import RewardProviderSpec
from posttrain.rewards.metrics.contribution import MetricContribution
from strategies import finite_floats

mean, total = MetricContribution.mean, MetricContribution.total


def _score(candidate: RewardCandidate, context: RewardContext) -> RewardProviderResult:
    return RewardProviderResult({"task": 1.0})


def _diagnostics(rows: list[Any], declared: tuple[str, ...] = ("calls", "tokens")) -> dict[str, MetricContribution]:
    """Check a group with these diagnostics, one mapping for each of the candidates t0, t1, ..."""
    factory = functools.partial(map_candidates, _score)
    spec = RewardProviderSpec(factory=factory, revision="1", terms=("task",), diagnostics=declared)
    ids = [f"t{index}" for index in range(len(rows))]
    request = RewardGroupRequest("g", tuple(RewardCandidate(each, "text") for each in ids), RewardContext())
    items = tuple(
        RewardCandidateResult(each, RewardProviderResult({"task": 0.5}, row))
        for each, row in zip(ids, rows, strict=True)
    )
    columns, merged = check_result(spec, request, RewardGroupResult("g", items))
    assert columns == {"task": (0.5,) * len(rows)}
    return merged


def _refusal(rows: list[Any], declared: tuple[str, ...] = ("calls", "tokens")) -> RewardContractError:
    with pytest.raises(RewardContractError, match="the diagnostics are not what the spec declares:\n") as caught:
        _diagnostics(rows, declared)
    return caught.value


def _lines(error: RewardContractError) -> list[str]:
    return [line.removeprefix("  ") for line in error.message.splitlines()[1:]]


def test_each_diagnostic_is_merged_over_the_group() -> None:
    """A mean averages, a total adds up, over the candidates that have one."""
    rows = [
        {"calls": total(2), "tokens": mean(0.5, 3)},
        {"tokens": mean(1.0)},
        {"calls": total(5)},
        {},
    ]
    merged = _diagnostics(rows)
    # (0.5 · 3 + 1 · 1) / 4.
    assert {name: each.value for name, each in merged.items()} == {"calls": 7.0, "tokens": 0.625}


def test_a_diagnostic_that_no_candidate_has_is_absent() -> None:
    """Nothing is made up for it."""
    assert _diagnostics([{}, {}]) == {}
    assert _diagnostics([{"calls": total(1)}, {}]) == {"calls": total(1)}


@given(st.lists(finite_floats, min_size=1, max_size=6))
def test_diagnostics_of_any_value_leave_the_terms_alone(values: list[float]) -> None:
    """The columns of a group are the same whatever is reported besides; the builder checks them."""
    assert set(_diagnostics([{"calls": mean(value)} for value in values])) == {"calls"}


def test_a_read_only_mapping_is_taken() -> None:
    """Diagnostics may come in any mapping."""
    assert _diagnostics([MappingProxyType({"calls": total(1)}), MappingProxyType({})]) == {"calls": total(1)}


def test_every_offender_is_named_and_no_good_one() -> None:
    """Undeclared names and bare numbers are listed under their candidates with the fix; sound ones are absent."""
    error = _refusal(
        [
            {"calls": total(1)},
            {"call": total(1), "tokens": 0.5},
            {},
            {"calls": None, "tokens": mean(1.0)},
        ]
    )
    assert _lines(error) == [
        "t1: diagnostic 'call' (str) is not declared; the spec's diagnostics are calls, tokens",
        "t1: diagnostic 'tokens' is 0.5 (float): write MetricContribution.mean(value)",
        "t3: diagnostic 'calls' is None: write MetricContribution.mean(value)",
    ]
    assert error.trajectory_id is None


def test_the_only_candidate_at_fault_is_the_error_s_trajectory() -> None:
    """Two faults of one candidate are still one candidate."""
    error = _refusal([{}, {"call": total(1), "tokens": 0.5}])
    assert error.trajectory_id == "t1"


def test_a_spec_without_diagnostics_takes_none() -> None:
    """The refusal says that there are none."""
    assert _diagnostics([{}, {}], ()) == {}
    assert _lines(_refusal([{}, {"calls": total(1)}], ())) == [
        "t1: diagnostic 'calls' (str) is not declared; the spec's diagnostics are none"
    ]


@pytest.mark.parametrize(
    "diagnostics",
    [None, (), [], 0.5, "calls", [("calls", total(1))], np.array([1.0, 2.0]), np.array([]), total(1)],
    ids=["none", "tuple", "list", "number", "str", "pairs", "array", "empty array", "contribution"],
)
@pytest.mark.parametrize("alone", [True, False], ids=["in each candidate", "in one"])
def test_diagnostics_that_are_no_mapping_are_refused(diagnostics: Any, alone: bool) -> None:
    """Also an empty list is no mapping, and an array raises no error of its own."""
    rows = [diagnostics, diagnostics] if alone else [{}, diagnostics]
    lines = _lines(_refusal(rows))
    assert len(lines) == (2 if alone else 1)
    assert all(line.endswith(", expected a mapping from name to MetricContribution") for line in lines)
    assert lines[-1].startswith("t1: diagnostics is ")


BY_HAND: dict[str, Callable[[], Any]] = {
    "a bare value": lambda: MetricContribution("mean", 0.5),  # type: ignore[arg-type]  # the mistake under test
    "a list": lambda: MetricContribution("total", [0.5]),  # type: ignore[arg-type]  # the mistake under test
    "no parts": lambda: MetricContribution("total", None),  # type: ignore[arg-type]  # the mistake under test
    "an int": lambda: MetricContribution("total", (1,)),
    "nan": lambda: MetricContribution("total", (math.nan,)),
    "inf": lambda: MetricContribution("minimum", (math.inf,)),
    "two extremes": lambda: MetricContribution("maximum", (1.0, 2.0)),
    "no extreme": lambda: MetricContribution("maximum", ()),
    "a mean without weight": lambda: MetricContribution("mean", (1.0,)),
    "a mean of nothing": lambda: MetricContribution("mean", (1.0,), (0.0,)),
    "a mean outside its values": lambda: MetricContribution("mean", (1.0,), (-1.0,)),
    "weights that cancel": lambda: MetricContribution("mean", (1.0,), (1.0, -1.0)),
    "a total with weight": lambda: MetricContribution("total", (1.0,), (1.0,)),
    "a weight that is no tuple": lambda: MetricContribution("mean", (1.0,), 1.0),  # type: ignore[arg-type]  # on purpose
    "another kind": lambda: MetricContribution("median", (1.0,)),  # type: ignore[arg-type]  # the mistake under test
    "no kind": lambda: MetricContribution([], (1.0,)),  # type: ignore[arg-type]  # the mistake under test
}


@pytest.mark.parametrize("make", BY_HAND.values(), ids=BY_HAND)
def test_what_no_constructor_makes_is_refused(make: Callable[[], Any]) -> None:
    """A contribution that was put together by hand is named at the boundary, not when the report is read."""
    error = _refusal([{"calls": total(1)}, {"calls": make()}])
    (line,) = _lines(error)
    assert line.startswith(
        "t1: diagnostic 'calls' was not made by mean, total, minimum or maximum: MetricContribution("
    )
    assert error.trajectory_id == "t1"


@given(st.lists(st.tuples(finite_floats, st.integers(1, 10**6)), min_size=1, max_size=5))
def test_whatever_the_constructors_make_is_sound(pairs: list[tuple[float, int]]) -> None:
    """Contributions of any value, and what they merge to, pass where they are checked again."""
    for kind in (MetricContribution.total, MetricContribution.minimum, MetricContribution.maximum):
        assert functools.reduce(MetricContribution.merge, [kind(value) for value, _ in pairs]).is_sound
    bounded = [(max(-1e300, min(1e300, value)), weight) for value, weight in pairs]
    assert functools.reduce(MetricContribution.merge, [mean(*pair) for pair in bounded]).is_sound


def test_two_kinds_under_one_name_are_refused() -> None:
    """One candidate's mean and another's total can't be one metric; the diagnostic and both kinds are named."""
    with pytest.raises(RewardContractError, match=r"^diagnostic 'calls': can't merge .* kinds: mean, total"):
        _diagnostics([{"calls": mean(1.0)}, {"calls": total(1.0)}])
