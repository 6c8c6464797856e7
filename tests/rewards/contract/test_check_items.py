# SPDX-License-Identifier: Apache-2.0
"""A result has to correlate with its request: the group's id, and one item per candidate in the request's order."""

from __future__ import annotations

import functools
from collections.abc import Sequence
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


def _score(candidate: RewardCandidate, context: RewardContext) -> RewardProviderResult:
    return RewardProviderResult({"task": 1.0})


SPEC = RewardProviderSpec(factory=functools.partial(map_candidates, _score), revision="1", terms=("task",))
TWO_TERMS = RewardProviderSpec(factory=SPEC.factory, revision="1", terms=("task", "style"))
HEADLINE = r"the result has \d+ items for \d+ candidates, or not in their order:\n"

sizes = st.integers(1, 6)


def _ids(size: int) -> list[str]:
    return [f"t{index}" for index in range(size)]


def _request(ids: Sequence[str]) -> RewardGroupRequest:
    return RewardGroupRequest("g", tuple(RewardCandidate(each, "text") for each in ids), RewardContext())


def _item(trajectory_id: Any, value: float = 1.0) -> RewardCandidateResult:
    return RewardCandidateResult(trajectory_id, RewardProviderResult({"task": value}))


def _refusal(wanted: Sequence[str], got: Sequence[Any]) -> RewardContractError:
    with pytest.raises(RewardContractError, match=HEADLINE) as caught:
        check_result(SPEC, _request(wanted), RewardGroupResult("g", tuple(map(_item, got))))
    return caught.value


def _lines(error: RewardContractError) -> list[str]:
    """The offenders that the error lists, without its headline and the way out."""
    lines = error.message.splitlines()
    assert lines[-1] == "Return one item per candidate, in the order of request.candidates."
    return [line.strip() for line in lines[1:-1]]


@given(st.data(), sizes)
def test_no_order_but_the_request_s_is_accepted(data: st.DataObject, size: int) -> None:
    """Of all permutations only the identical one passes; every misplaced index is named, and no other."""
    wanted = _ids(size)
    got = data.draw(st.permutations(wanted))
    if got == wanted:
        columns, _ = check_result(SPEC, _request(wanted), RewardGroupResult("g", tuple(map(_item, got))))
        assert columns == {"task": (1.0,) * size}
        return
    error = _refusal(wanted, got)
    places = [index for index in range(size) if got[index] != wanted[index]]
    assert _lines(error) == [f"at [{at}]: expected {wanted[at]!r}, got {got[at]!r}" for at in places]
    assert error.trajectory_id is None


@given(st.data(), sizes)
def test_no_candidate_may_be_left_out(data: st.DataObject, size: int) -> None:
    """Each omitted candidate is named in the request's order, the others are absent; one alone is the trajectory."""
    wanted = _ids(size)
    left_out = data.draw(st.sets(st.sampled_from(wanted), min_size=1))
    error = _refusal(wanted, [each for each in wanted if each not in left_out])
    assert _lines(error) == [f"missing: {each!r}" for each in wanted if each in left_out]
    assert error.trajectory_id == (next(iter(left_out)) if len(left_out) == 1 else None)


@given(st.data(), sizes)
def test_no_candidate_may_stand_twice(data: st.DataObject, size: int) -> None:
    """Items that stand again, anywhere, are named once each."""
    wanted = _ids(size)
    again = data.draw(st.lists(st.sampled_from(wanted), min_size=1, max_size=3))
    got = list(wanted)
    for each in again:
        got.insert(data.draw(st.integers(0, len(got))), each)
    error = _refusal(wanted, got)
    assert sorted(_lines(error)) == [f"more than once: {each!r}" for each in sorted(set(again))]
    assert error.trajectory_id == (again[0] if len(set(again)) == 1 else None)


@given(st.data(), sizes)
def test_any_other_list_of_ids_is_refused(data: st.DataObject, size: int) -> None:
    """Whatever ids come in whatever number, only the request's own list passes and exactly the wrong ids are named."""
    wanted = _ids(size)
    got = data.draw(st.lists(st.sampled_from([*wanted, "t9", "T0", "t0 ", ""]), max_size=size + 2))
    if got == wanted:
        return
    error = _refusal(wanted, got)
    expected = {f"missing: {each!r}" for each in set(wanted) - set(got)}
    expected |= {f"not asked for: {each!r}" for each in set(got) - set(wanted)}
    expected |= {f"more than once: {each!r}" for each in got if got.count(each) > 1}
    if expected:
        assert sorted(_lines(error)) == sorted(expected)
    else:
        assert all(line.startswith("at [") for line in _lines(error))


@pytest.mark.parametrize(
    ("returned", "lines", "trajectory_id"),
    [
        (["t1"], ["missing: 't2'", "missing: 't3'"], None),
        (["t1", "t2", "t3", "t4"], ["not asked for: 't4'"], None),
        (["t1", "t2", "t2"], ["missing: 't3'", "more than once: 't2'"], None),
        (["t2", "t1", "t3"], ["at [0]: expected 't1', got 't2'", "at [1]: expected 't2', got 't1'"], None),
        (["t1", "t3"], ["missing: 't2'"], "t2"),
        (["t1", "t2", "t3", "t3"], ["more than once: 't3'"], "t3"),
        ([], ["missing: 't1'", "missing: 't2'", "missing: 't3'"], None),
    ],
    ids=["broadcast", "extra", "repeated", "swapped", "one left out", "one twice", "nothing"],
)
def test_nothing_is_broadcast_padded_or_sorted(
    returned: list[str], lines: list[str], trajectory_id: str | None
) -> None:
    """A short, long, doubled or reordered result names each wrong id; the trajectory is set when it is just one."""
    error = _refusal(["t1", "t2", "t3"], returned)
    assert _lines(error) == lines
    assert error.trajectory_id == trajectory_id
    assert error.message.startswith(f"the result has {len(returned)} items for 3 candidates")


def test_scores_are_joined_by_identity() -> None:
    """A batch that was reordered on the way scores as it was asked, or is refused; no score lands on a neighbour."""
    by_id = {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4}
    asked = ["c", "a", "d", "b"]
    answer = RewardGroupResult("g", tuple(_item(each, by_id[each]) for each in asked))
    assert check_result(SPEC, _request(asked), answer)[0] == {"task": (0.3, 0.1, 0.4, 0.2)}
    with pytest.raises(RewardContractError, match=r"at \[0\]: expected 'a', got 'c'"):
        check_result(SPEC, _request(["a", "b", "c", "d"]), answer)


def test_many_wrong_ids_are_counted() -> None:
    """The list of offenders is cut at twenty, and what is not shown is counted."""
    lines = _lines(_refusal(_ids(64), []))
    assert lines[:2] == ["missing: 't0'", "missing: 't1'"]
    assert len(lines) == 21
    assert lines[-1] == "... and 44 more"


def _with_items(items: Any) -> RewardGroupResult:
    return RewardGroupResult("g", items)


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (None, "None"),
        (1.0, r"1\.0 \(float\)"),
        ([1.0, 1.0], r"\[1\.0, 1\.0\] \(list\)"),
        ({"task": 1.0}, r"\{'task': 1\.0\} \(dict\)"),
        (RewardGroupResult, r"<class '.*RewardGroupResult'> \(.*\)"),
        (RewardProviderResult({"task": 1.0}), r"RewardProviderResult\(.*\)"),
        ((_item("t0"), _item("t1")), r"\(RewardCandidateResult\(.* \(tuple\)"),
    ],
    ids=["none", "number", "list", "mapping", "the class", "of one candidate", "bare items"],
)
def test_another_type_of_result_is_refused(result: Any, shown: str) -> None:
    """What was returned is shown with its type, next to what was expected."""
    with pytest.raises(RewardContractError, match=f"^evaluate returned {shown}, expected a RewardGroupResult$"):
        check_result(SPEC, _request(["t0", "t1"]), result)


def test_a_coroutine_for_a_result_is_refused_and_closed() -> None:
    """An async evaluate is told to drop the async, and leaves no coroutine behind that was never awaited."""

    async def evaluate() -> RewardGroupResult:
        raise NotImplementedError

    waiting: Any = evaluate()
    with pytest.raises(RewardContractError, match=r"evaluate returned a coroutine .*: drop the async"):
        check_result(SPEC, _request(["t0"]), waiting)
    assert waiting.cr_frame is None  # closed


@pytest.mark.parametrize(
    "items",
    [[_item("t0"), _item("t1")], {"t0": _item("t0")}, None, "t0", np.array([1.0, 2.0]), map(_item, ["t0", "t1"])],
    ids=["list", "dict", "none", "str", "array", "iterator"],
)
def test_items_other_than_a_tuple_are_refused(items: Any) -> None:
    """A list could change after it was checked, an iterator could be used up: both are told to become a tuple."""
    with pytest.raises(RewardContractError, match=r"^items is .*, expected a tuple: write items=tuple\(items\)$"):
        check_result(SPEC, _request(["t0", "t1"]), _with_items(items))


@pytest.mark.parametrize(
    "group_id", ["g2", "", "G", None, 5, b"g", ["g"], np.array(["g"]), np.array(["g", "g"])], ids=repr
)
def test_another_group_s_result_is_refused(group_id: Any) -> None:
    """The group id is repeated as it came; nothing that only looks like it passes."""
    with pytest.raises(
        RewardContractError, match=r"^the result is for group .*, expected 'g': repeat request\.group_id$"
    ):
        check_result(SPEC, _request(["t0"]), RewardGroupResult(group_id, (_item("t0"),)))


@pytest.mark.parametrize("spec", [SPEC, TWO_TERMS], ids=["one term", "two terms"])
def test_items_of_another_type_are_named_by_their_place(spec: RewardProviderSpec) -> None:
    """Every item that is no RewardCandidateResult is shown with its index; the good ones are absent."""
    scores = RewardProviderResult({"task": 1.0})
    items: Any = (_item("t0"), 0.5, _item("t2"), None, scores, ("t5", 1.0))
    with pytest.raises(RewardContractError, match="items holds what is no RewardCandidateResult") as caught:
        check_result(spec, _request(_ids(6)), _with_items(items))
    assert caught.value.message.splitlines()[1:] == [
        "  items[1]: 0.5 (float)",
        "  items[3]: None",
        f"  items[4]: {scores} ({RewardProviderResult.__module__}.RewardProviderResult)",
        "  items[5]: ('t5', 1.0) (tuple)",
    ]
    assert caught.value.trajectory_id is None


def test_items_that_are_coroutines_are_refused_and_closed() -> None:
    """A tuple of calls of an async scorer is told so, once for each, and none is left waiting."""

    async def score() -> RewardCandidateResult:
        raise NotImplementedError

    waiting: Any = (score(), score())
    with pytest.raises(RewardContractError, match=r"items\[0\]: a coroutine .*\n.*items\[1\]: a coroutine"):
        check_result(SPEC, _request(["t0", "t1"]), _with_items(waiting))
    assert [each.cr_frame for each in waiting] == [None, None]


@pytest.mark.parametrize("spec", [SPEC, TWO_TERMS], ids=["one term", "two terms"])
@pytest.mark.parametrize(
    ("trajectory_id", "shown"),
    [
        (None, "None"),
        (1, "1 (int)"),
        (b"t1", "b't1' (bytes)"),
        (["t1"], "['t1'] (list)"),
        (np.array(["t1"]), "array(['t1'], dtype='<U2') (numpy.ndarray)"),
        (np.array(["t1", "t1"]), "array(['t1', 't1'], dtype='<U2') (numpy.ndarray)"),
    ],
    ids=["none", "int", "bytes", "list", "array of one", "array of two"],
)
def test_an_id_that_is_no_string_is_named_by_its_place(
    spec: RewardProviderSpec, trajectory_id: Any, shown: str
) -> None:
    """Such an id equals none of the request's, also where a library's own comparison would say so."""
    with pytest.raises(RewardContractError, match="items holds a trajectory_id that is no string") as caught:
        check_result(spec, _request(["t0", "t1"]), _with_items((_item("t0"), _item(trajectory_id))))
    assert caught.value.message.splitlines()[1:] == [f"  items[1]: {shown}"]


def test_a_string_that_went_through_numpy_is_the_same_id() -> None:
    """Ids that a provider kept in an array come back as numpy strings, and are taken."""
    ids = [str(each) for each in np.array(["t0", "t1"])]
    items = tuple(_item(each) for each in np.array(ids))
    assert type(items[0].trajectory_id) is np.str_
    assert check_result(SPEC, _request(ids), RewardGroupResult("g", items))[0] == {"task": (1.0, 1.0)}


@pytest.mark.parametrize("spec", [SPEC, TWO_TERMS], ids=["one term", "two terms"])
def test_results_of_another_type_are_named_by_their_candidate(spec: RewardProviderSpec) -> None:
    """A scorer that returns a bare number, a dict or nothing fails under its candidate's id; good ones are absent."""
    right = RewardProviderResult(dict.fromkeys(spec.terms, 1.0))
    answers: list[Any] = [right, 0.5, right, {"task": 1.0}, None, right]
    items = tuple(map(RewardCandidateResult, _ids(6), answers))
    with pytest.raises(RewardContractError, match="a candidate's result is of the wrong type") as caught:
        check_result(spec, _request(_ids(6)), RewardGroupResult("g", items))
    assert caught.value.message.splitlines()[1:] == [
        "  t1: 0.5 (float), expected a RewardProviderResult",
        "  t3: {'task': 1.0} (dict), expected a RewardProviderResult",
        "  t4: None, expected a RewardProviderResult",
    ]
    assert caught.value.trajectory_id is None


def test_one_result_of_another_type_sets_the_trajectory() -> None:
    """When one candidate alone is at fault, the error carries its id."""
    items: Any = (_item("t0"), RewardCandidateResult("t1", 0.5))  # type: ignore[arg-type]  # the mistake under test
    with pytest.raises(RewardContractError, match="a candidate's result is of the wrong type") as caught:
        check_result(SPEC, _request(["t0", "t1"]), _with_items(items))
    assert caught.value.trajectory_id == "t1"


def test_an_async_scorer_is_told_to_drop_the_async() -> None:
    """A lifted coroutine function fails every candidate by name, and leaves no coroutine behind."""
    called: list[Any] = []

    async def score(candidate: RewardCandidate, context: RewardContext) -> RewardProviderResult:
        raise NotImplementedError

    def keep(candidate: RewardCandidate, context: RewardContext) -> Any:
        called.append(score(candidate, context))
        return called[-1]

    request = _request(["t0", "t1"])
    with pytest.raises(RewardContractError, match=r"t0: a coroutine .*\n.*t1: a coroutine .*: drop the async"):
        check_result(SPEC, request, map_candidates(keep).evaluate(request))
    assert [each.cr_frame for each in called] == [None, None]


def test_subclasses_of_the_contract_s_types_are_taken() -> None:
    """An author may add methods to the types; what counts is what they hold."""

    class _Result(RewardGroupResult, frozen=True):
        pass

    class _Item(RewardCandidateResult, frozen=True):
        pass

    class _Scores(RewardProviderResult, frozen=True):
        pass

    result = _Result("g", (_Item("t0", _Scores({"task": 0.5})), _item("t1", 0.25)))
    assert check_result(SPEC, _request(["t0", "t1"]), result) == ({"task": (0.5, 0.25)}, {})
