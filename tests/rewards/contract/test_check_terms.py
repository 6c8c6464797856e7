# SPDX-License-Identifier: Apache-2.0
"""Every declared term and no other, each one real finite number: anything else is refused, and never becomes one."""

from __future__ import annotations

import enum
import functools
import json
import math
from collections import ChainMap, OrderedDict, defaultdict
from collections.abc import Iterator, Mapping
from fractions import Fraction
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
from strategies import NO_SCORES, finite_floats


def _score(candidate: RewardCandidate, context: RewardContext) -> RewardProviderResult:
    return RewardProviderResult({"task": 1.0})


def _columns(rows: list[Any], terms: tuple[str, ...] = ("task",)) -> dict[str, tuple[float, ...]]:
    """Check a group with these terms, one mapping for each of the candidates t0, t1, ..."""
    spec = RewardProviderSpec(factory=functools.partial(map_candidates, _score), revision="1", terms=terms)
    ids = [f"t{index}" for index in range(len(rows))]
    request = RewardGroupRequest("g", tuple(RewardCandidate(each, "text") for each in ids), RewardContext())
    items = tuple(RewardCandidateResult(each, RewardProviderResult(row)) for each, row in zip(ids, rows, strict=True))
    columns, diagnostics = check_result(spec, request, RewardGroupResult("g", items))
    assert diagnostics == {}
    return columns


def _refusal(rows: list[Any], terms: tuple[str, ...] = ("task",)) -> RewardContractError:
    with pytest.raises(RewardContractError, match="the terms are not what the spec declares:\n") as caught:
        _columns(rows, terms)
    return caught.value


def _lines(error: RewardContractError) -> list[str]:
    return [line.removeprefix("  ") for line in error.message.splitlines()[1:]]


class _Level(enum.IntEnum):
    HIGH = 3


class _Tensor:
    """Looks to a reader without torch as a tensor does."""

    def __init__(self, value: float, ndim: int = 0) -> None:
        self.ndim = ndim
        self._value = value

    def item(self) -> float:
        return self._value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, 0.0),
        (-0.0, -0.0),
        (5e-324, 5e-324),
        (1, 1.0),
        (-(2**53), -(2.0**53)),
        (Fraction(1, 4), 0.25),
        (_Level.HIGH, 3.0),
        (np.float64(0.5), 0.5),
        # The float32 next to 0.1 is 13421773 / 2**27.
        (np.float32(0.1), 13421773 / 2**27),
        (np.int64(-7), -7.0),
        (np.uint8(255), 255.0),
        (np.array(0.25), 0.25),
        (_Tensor(0.25), 0.25),
    ],
    ids=repr,
)
def test_a_number_of_any_library_becomes_a_python_float(value: Any, expected: float) -> None:
    """A zero is a score like any other, signs are kept, and what comes out is plain enough for JSON."""
    for rows, terms in (
        ([{"task": value}, {"task": 1.0}], ("task",)),
        ([{"task": value, "style": 0.0}, {"task": 1.0, "style": 0.0}], ("style", "task")),
    ):
        (first, second) = _columns(rows, terms)["task"]
        assert (type(first), first.hex(), second) == (float, expected.hex(), 1.0)
        assert json.loads(json.dumps([first])) == [expected]


@pytest.mark.parametrize("value", [*NO_SCORES, _Tensor(0.5, ndim=1), _Tensor(math.nan), object(), float], ids=repr)
@pytest.mark.parametrize("size", [1, 3])
def test_what_is_no_number_fails_its_candidate(value: Any, size: int) -> None:
    """None, bools, strings, NaN, infinities and arrays of one are refused under term and candidate, and no other."""
    for at in range(size):
        rows = [{"task": value if index == at else 0.5} for index in range(size)]
        error = _refusal(rows)
        (line,) = _lines(error)
        assert line.startswith(f"t{at}: term 'task': expected one finite number, got ")
        assert error.trajectory_id == f"t{at}"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "got None: a candidate that can't be scored is an error, never a number; raise instead"),
        (True, "got True (bool): write float(ok)"),
        ("0.5", "got '0.5' (str): write float(value)"),
        (1e400, "got inf (float), which is not finite as a float"),
        (np.array([0.25]), "got array([0.25]) (numpy.ndarray): one number per candidate, write float(value.item())"),
    ],
    ids=["none", "bool", "str", "inf", "array of one"],
)
def test_the_reason_and_the_fix_are_given(value: Any, reason: str) -> None:
    """The line says what came and how to write it instead."""
    assert _lines(_refusal([{"task": value}])) == [f"t0: term 'task': expected one finite number, {reason}"]


@given(st.dictionaries(st.integers(0, 7), st.sampled_from(NO_SCORES), min_size=1))
def test_every_bad_candidate_is_named_and_no_good_one(bad: dict[int, Any]) -> None:
    """Bad values anywhere in a group of eight are all listed in order; the trajectory is set when there is just one."""
    error = _refusal([{"task": bad.get(index, 0.5)} for index in range(8)])
    assert [line.partition(":")[0] for line in _lines(error)] == [f"t{index}" for index in sorted(bad)]
    assert error.trajectory_id == (f"t{next(iter(bad))}" if len(bad) == 1 else None)


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf], ids=repr)
def test_a_candidate_that_could_not_be_scored_is_no_zero(value: Any) -> None:
    """One hole in a group fails the group by the candidate's name, whatever stands for the hole."""
    error = _refusal([{"task": 1.0}, {"task": 3.0}, {"task": 2.0}, {"task": value}])
    assert error.trajectory_id == "t3"
    assert "term 'task'" in error.message


def test_terms_may_stand_in_any_order() -> None:
    """Columns come out in the spec's order, joined by name."""
    rows = [{"style": 0.25, "task": 1.0}, {"task": 0.0, "style": 0.5}]
    columns = _columns(rows, ("task", "style"))
    assert list(columns.items()) == [("task", (1.0, 0.0)), ("style", (0.25, 0.5))]


def test_missing_and_undeclared_terms_are_all_named() -> None:
    """Each candidate's missing, extra and bad terms are listed with what is declared; sound candidates are absent."""
    rows = [
        {"task": 1.0, "style": 0.5},
        {"task": 1.0},
        {"task": 1.0, "style": 0.5, "lenght": 2.0},
        {"Task": 1.0, "style": math.nan},
        {},
    ]
    error = _refusal(rows, ("task", "style"))
    assert _lines(error) == [
        "t1: term 'style' is missing",
        "t2: term 'lenght' (str) is not declared; the spec's terms are task, style",
        "t3: term 'task' is missing",
        "t3: term 'style': expected one finite number, got nan (float), which is not finite as a float",
        "t3: term 'Task' (str) is not declared; the spec's terms are task, style",
        "t4: term 'task' is missing",
        "t4: term 'style' is missing",
    ]
    assert error.trajectory_id is None


def test_several_faults_of_one_candidate_set_the_trajectory() -> None:
    """What counts is the number of candidates at fault, not of faults."""
    error = _refusal([{"task": 1.0}, {"taks": None}])
    assert len(_lines(error)) == 2
    assert error.trajectory_id == "t1"


@pytest.mark.parametrize(("key", "shown"), [(1, "1 (int)"), (None, "None"), (("task",), "('task',) (tuple)")], ids=repr)
def test_a_term_that_is_no_string_is_undeclared(key: Any, shown: str) -> None:
    """A key of another type is shown with its type."""
    error = _refusal([{"task": 1.0, key: 1.0}])
    assert _lines(error) == [f"t0: term {shown} is not declared; the spec's terms are task"]


@pytest.mark.parametrize(
    "terms", [None, (), [("task", 1.0)], {"task"}, "task", 0.5, np.array([0.5]), defaultdict], ids=repr
)
def test_terms_that_are_no_mapping_are_refused(terms: Any) -> None:
    """A bare number or a list of pairs is no mapping from term to number."""
    error = _refusal([{"task": 0.5}, terms])
    assert len(_lines(error)) == 1
    assert _lines(error)[0].startswith("t1: terms is ")
    assert _lines(error)[0].endswith(", expected a mapping from term to float")
    assert error.trajectory_id == "t1"


def test_a_default_of_a_mapping_is_no_score() -> None:
    """A defaultdict would answer 0.0 for a term that was never scored; it is missing all the same."""
    row: dict[str, float] = defaultdict(float)
    assert _lines(_refusal([row])) == ["t0: term 'task' is missing"]
    assert row == {}
    row["style"] = 0.5
    assert _lines(_refusal([row], ("task", "style"))) == ["t0: term 'task' is missing"]


@given(finite_floats)
def test_any_kind_of_mapping_is_taken(value: float) -> None:
    """Read-only, ordered and chained mappings hold terms as well as a dict."""
    rows: list[Any] = [
        {"task": value},
        MappingProxyType({"task": value}),
        OrderedDict(task=value),
        ChainMap({}, {"task": value}),
        defaultdict(float, task=value),
    ]
    assert [each.hex() for each in _columns(rows)["task"]] == [value.hex()] * 5


class _Flickering(Mapping[str, Any]):
    """Holds a number when it is first looked at, and something else from then on."""

    def __init__(self, then: Any) -> None:
        self.values_in_turn = [0.5, then]

    def __getitem__(self, key: str) -> Any:
        return self.values_in_turn.pop(0) if len(self.values_in_turn) > 1 else self.values_in_turn[0]

    def __contains__(self, key: object) -> bool:
        return key == "task"

    def __iter__(self) -> Iterator[str]:
        return iter(["task"])

    def __len__(self) -> int:
        return 1


def test_a_value_that_changes_under_the_check_is_refused() -> None:
    """What is written down is what was checked: a second look that finds no number raises."""
    with pytest.raises(RewardContractError, match=r"a term's value changed while it was checked: nan \(float\)"):
        _columns([_Flickering(math.nan)])


def test_many_bad_candidates_are_counted() -> None:
    """The list of offenders is cut at twenty, and what is not shown is counted."""
    lines = _lines(_refusal([{"task": None}] * 64))
    assert len(lines) == 21
    assert lines[-1] == "... and 44 more"
