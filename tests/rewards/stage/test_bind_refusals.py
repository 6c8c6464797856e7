# SPDX-License-Identifier: Apache-2.0
"""A batch that breaks the contract is refused before any custom code runs, with every offender named at once."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.errors import RewardContractError
from posttrain.rewards.catalog.catalog import RewardCatalog
from posttrain.rewards.contract.pointwise import map_candidates
from posttrain.rewards.contract.request import RewardCandidate, RewardContext
from posttrain.rewards.contract.result import RewardProviderResult
from posttrain.rewards.contract.spec import RewardProviderSpec
from posttrain.rewards.stage.bind import bind
from posttrain.rewards.stage.prepare import Selection, select
from posttrain.rewards.stage.worker import RewardWorker
from posttrain.schema import Observation, Trajectory
from strategies import canonical_text, changed_in_one_place, json_values

HEADLINE = "the batch does not fit the contract:\n"


def _never(candidate: RewardCandidate, context: RewardContext) -> RewardProviderResult:
    raise AssertionError("custom code ran on a batch that breaks the contract")


def _spec(index: int, needs: tuple[str, ...]) -> RewardProviderSpec:
    factory = functools.partial(map_candidates, _never)
    return RewardProviderSpec(factory=factory, revision="1", terms=(f"term{index}",), needs=needs)


def _selection(*needs: tuple[str, ...]) -> Selection:
    specs = {f"p{index}": _spec(index, each) for index, each in enumerate(needs)}
    return select(RewardCatalog(specs), list(specs))


BOTH = _selection(("prompt", "reference"))


def _trajectory(group: Any, index: int, prompt: Any = "p", reference: Any = "r", **fields: Any) -> Trajectory:
    made: dict[str, Any] = {
        "trajectory_id": f"{group}-{index}",
        "group_id": group,
        "obs": Observation(id=group, prompt=prompt, reference=reference),
        "completion": "text",
    }
    return Trajectory(**{**made, **fields})


def _refusal(
    batch: list[Any], size: int = 2, selection: Selection = BOTH, match: str = HEADLINE
) -> RewardContractError:
    with pytest.raises(RewardContractError, match=match) as caught:
        bind(batch, selection, size)
    return caught.value


def _lines(error: RewardContractError) -> list[str]:
    return [line.removeprefix("  ") for line in error.message.splitlines()[1:]]


def _sound(group: str = "good") -> list[Trajectory]:
    """A whole group that no error may name."""
    return [_trajectory(group, index) for index in range(2)]


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"completion": None}, "its completion is missing (None); an empty completion is the empty string"),
        ({"completion": b"x"}, "its completion has to be a string, got b'x' (bytes)"),
        ({"completion": np.str_("x")}, "its completion has to be a string, got np.str_('x') (numpy.str_)"),
        ({"completion": ["x"]}, "its completion has to be a string, got ['x'] (list)"),
        ({"obs": None}, "obs has to be an Observation, got None"),
        ({"obs": {"id": "bad"}}, "obs has to be an Observation, got {'id': 'bad'} (dict)"),
        ({"reward": None}, "reward has to be a dict, got None"),
        ({"reward": [0.5]}, "reward has to be a dict, got [0.5] (list)"),
        ({"policy_info": None}, "policy_info has to be a dict, got None"),
        (
            {"policy_info": {"completion_token_count": -1}},
            "completion_token_count has to be an int of at least 0 or None, got -1 (int)",
        ),
        (
            {"policy_info": {"completion_token_count": True}},
            "completion_token_count has to be an int of at least 0 or None, got True (bool)",
        ),
        (
            {"policy_info": {"completion_token_count": np.int64(3)}},
            "completion_token_count has to be an int of at least 0 or None, got np.int64(3) (numpy.int64)",
        ),
        (
            {"policy_info": {"completion_token_count": 3.0}},
            "completion_token_count has to be an int of at least 0 or None, got 3.0 (float)",
        ),
        (
            {"policy_info": {"finish_reason": 1}},
            "finish_reason has to be the engine's verdict as a string or None, got 1 (int)",
        ),
        (
            {"policy_info": {"finish_reason": np.str_("length")}},
            "finish_reason has to be the engine's verdict as a string or None, got np.str_('length') (numpy.str_)",
        ),
    ],
    ids=lambda part: part if isinstance(part, str) else None,
)
@pytest.mark.parametrize("at", [0, 1])
def test_a_malformed_record_is_named(fields: dict[str, Any], fault: str, at: int) -> None:
    """The group and the trajectory at fault are named, with what came; sound ones are absent."""
    batch = [*_sound(), _trajectory("bad", 0), _trajectory("bad", 1)]
    for name, value in fields.items():
        setattr(batch[2 + at], name, value)
    error = _refusal(batch)
    assert _lines(error) == [f"group 'bad', trajectory 'bad-{at}': {fault}"]
    assert (error.group_id, error.trajectory_id) == ("bad", f"bad-{at}")


@pytest.mark.parametrize("value", [None, "", 5, b"x", np.str_("x"), ["x"]], ids=repr)
def test_an_identity_is_a_filled_string(value: Any) -> None:
    """A missing, empty or foreign id is named by its place in the batch, and its row still counts for its group."""
    batch = [*_sound(), _trajectory("bad", 0, trajectory_id=value), _trajectory("bad", 1)]
    (line,) = _lines(_refusal(batch))
    assert line.startswith("[2]: trajectory_id has to be a filled string, got ")
    batch = [*_sound(), _trajectory("bad", 0, group_id=value), _trajectory("bad", 1)]
    foreign, short = _lines(_refusal(batch))
    assert foreign.startswith("trajectory 'bad-0': [2]: group_id has to be a filled string, got ")
    assert short == "group 'bad': has 1 candidates ('bad-1'), expected 2"


@pytest.mark.parametrize("obs_id", ["other", "", None, 5], ids=repr)
def test_an_observation_belongs_to_its_group(obs_id: Any) -> None:
    """A trajectory whose observation has another id was joined to the wrong row."""
    batch = [*_sound(), _trajectory("bad", 0), _trajectory("bad", 1)]
    batch[3].obs = Observation(id=obs_id, prompt="p", reference="r")
    error = _refusal(batch)
    shown = "None" if obs_id is None else f"{obs_id!r} ({type(obs_id).__name__})"
    assert _lines(error) == [f"group 'bad', trajectory 'bad-1': obs.id is {shown}, expected the group id 'bad'"]


@given(st.integers(1, 4), st.lists(st.integers(0, 6), min_size=1, max_size=4))
def test_every_group_has_exactly_the_configured_size(size: int, counts: list[int]) -> None:
    """Short and long groups are all named with their candidates; whole ones pass or are absent."""
    batch = [_trajectory(f"g{number}", index) for number, count in enumerate(counts) for index in range(count)]
    wrong = {f"g{number}": count for number, count in enumerate(counts) if count not in (0, size)}
    if not batch:
        assert _lines(_refusal(batch, size)) == ["expected at least one group, got no trajectories"]
    elif wrong:
        error = _refusal(batch, size)
        assert [line.partition(" (")[0] for line in _lines(error)] == [
            f"group {name!r}: has {count} candidates" for name, count in wrong.items()
        ]
        assert all(line.endswith(f"), expected {size}") for line in _lines(error))
        assert error.group_id == (next(iter(wrong)) if len(wrong) == 1 else None)
    else:
        assert len(bind(batch, BOTH, size)) == sum(count == size for count in counts)


def test_a_wrong_group_lists_its_candidates() -> None:
    """So that the missing one can be told; a very long group is cut."""
    assert _lines(_refusal([_trajectory("g", index) for index in range(3)], 4)) == [
        "group 'g': has 3 candidates ('g-0', 'g-1', 'g-2'), expected 4"
    ]
    (line,) = _lines(_refusal([_trajectory("g", index) for index in range(30)], 4))
    assert line.endswith("'g-7', ...), expected 4")


def test_a_trajectory_id_is_unique_over_the_batch() -> None:
    """An id that stands again, in its own group or in another, is named once with its count."""
    batch = [*_sound(), *_sound("g1"), *_sound("g2")]
    batch[3].trajectory_id = "g1-0"
    batch[4].trajectory_id = "g1-0"
    error = _refusal(batch)
    assert _lines(error) == ["trajectory 'g1-0': stands 3 times in the batch; a trajectory id is unique over it"]
    assert (error.group_id, error.trajectory_id) == (None, "g1-0")
    again = _sound()
    assert "trajectory 'good-0': stands 2 times" in _refusal([*again, again[0], _trajectory("good", 3)], 4).message


@pytest.mark.parametrize("stranger", [None, {"trajectory_id": "t"}, "t", Observation(id="g", prompt="p")], ids=repr)
def test_what_is_no_trajectory_is_named_by_its_place(stranger: Any) -> None:
    """The whole batch is refused, however sound the rest is."""
    (line,) = _lines(_refusal([*_sound(), stranger]))
    assert line.startswith("[2]: expected a Trajectory, got ")


@pytest.mark.parametrize("need", ["prompt", "reference"])
def test_a_declared_input_is_there(need: str) -> None:
    """None in one candidate or in all of them is missing, under each candidate's name."""
    batch = [*_sound(), _trajectory("some", 0), _trajectory("some", 1), _trajectory("all", 0), _trajectory("all", 1)]
    for each in (batch[2], batch[4], batch[5]):
        setattr(each.obs, need, None)
    error = _refusal(batch)
    fault = f"its {need} is missing or null, but a selected provider needs it"
    assert _lines(error) == [
        f"group 'some', trajectory 'some-0': {fault}",
        f"group 'all', trajectory 'all-0': {fault}",
        f"group 'all', trajectory 'all-1': {fault}",
    ]
    assert len(_lines(_refusal(batch[4:]))) == 2
    assert len(bind(batch, _selection(()), 2)) == 3


LOOK_ALIKES: list[tuple[Any, Any]] = [
    (1, True),
    (1, 1.0),
    (True, 1.0),
    (0.0, -0.0),
    ("1", 1),
    ("", None),
    ([], {}),
    ([1], [1, 1]),
    ({"a": None}, {}),
    ({"a": 1}, {"a": True}),
    ([2**53], [2.0**53]),
]


@pytest.mark.parametrize(("one", "other"), LOOK_ALIKES, ids=repr)
@pytest.mark.parametrize("wrap", [lambda value: [value, "x"], lambda value: {"deep": [value]}], ids=["list", "mapping"])
def test_inputs_that_only_look_alike_are_refused(one: Any, other: Any, wrap: Callable[[Any], Any]) -> None:
    """Inside a group 1, true and 1.0 are three inputs; the odd candidate is named with the place and both values."""
    batch = [*_sound(), *(_trajectory("bad", index, reference=wrap(one)) for index in range(3))]
    batch[4].obs.reference = wrap(other)
    batch.append(_trajectory("good", 2))
    error = _refusal(batch, 3)
    (line,) = _lines(error)
    assert line.startswith(
        "group 'bad', trajectory 'bad-2': its reference is not that of the group's first candidate 'bad-0': reference"
    )
    assert (error.group_id, error.trajectory_id) == ("bad", "bad-2")


@given(st.data(), json_values.filter(lambda value: value is not None))
def test_exactly_unequal_inputs_are_refused(data: st.DataObject, value: Any) -> None:
    """Of a value and the same value changed in one place, a group is made if and only if both are the same JSON."""
    other = data.draw(changed_in_one_place(value))
    batch = [_trajectory("g", 0, prompt=value), _trajectory("g", 1, prompt=other)]
    if canonical_text(value) == canonical_text(other):
        assert len(bind(batch, _selection(("prompt",)), 2)) == 1
    else:
        (line,) = _lines(_refusal(batch, 2, _selection(("prompt",))))
        assert line.startswith("group 'g', trajectory 'g-1': its prompt is ")


@pytest.mark.parametrize("at", [0, 1, 63, 64, 127, 128, 129])
def test_one_bad_row_in_a_long_batch_is_found(at: int) -> None:
    """Wherever it stands, the one row without a completion is the only one that is named."""
    batch = [_trajectory(f"g{number}", index) for number in range(65) for index in range(2)]
    batch[at].completion = None
    error = _refusal(batch)
    assert error.trajectory_id == batch[at].trajectory_id
    assert len(_lines(error)) == 1


def test_every_offender_of_a_batch_is_named_at_once() -> None:
    """Faults of all kinds in several groups stand in one error; sound groups and candidates are absent."""
    batch: list[Any] = [
        *_sound(),
        _trajectory("a", 0, completion=None),
        "no trajectory",
        _trajectory("b", 0, reference=1),
        _trajectory("a", 1, prompt=None),
        _trajectory("b", 1, reference=True),
        _trajectory("c", 0),
        _trajectory("d", 0, trajectory_id=""),
        _trajectory("d", 1, policy_info={"finish_reason": 5}),
        _trajectory("e", 0, trajectory_id="a-0"),
        _trajectory("e", 1),
    ]
    batch[-1].obs = Observation(id="E", prompt="p", reference="r")
    error = _refusal(batch)
    difference = "reference is 1 (int) in the first and True (bool) in the second"
    assert _lines(error) == [
        "[3]: expected a Trajectory, got 'no trajectory' (str)",
        "[8]: trajectory_id has to be a filled string, got '' (str)",
        "trajectory 'a-0': stands 2 times in the batch; a trajectory id is unique over it",
        "group 'a', trajectory 'a-0': its completion is missing (None); an empty completion is the empty string",
        "group 'a', trajectory 'a-1': its prompt is missing or null, but a selected provider needs it",
        f"group 'b', trajectory 'b-1': its reference is not that of the group's first candidate 'b-0': {difference}",
        "group 'c': has 1 candidates ('c-0'), expected 2",
        "group 'd', trajectory 'd-1': finish_reason has to be the engine's verdict as a string or None, got 5 (int)",
        "group 'e', trajectory 'e-1': obs.id is 'E' (str), expected the group id 'e'",
    ]
    assert (error.group_id, error.trajectory_id) == (None, None)
    assert "good" not in error.message


def test_many_offenders_are_counted() -> None:
    """The list is cut at twenty, and what is not shown is counted."""
    lines = _lines(_refusal([_trajectory("g", index, completion=None) for index in range(64)], 64))
    assert len(lines) == 21
    assert lines[-1] == "... and 44 more"


def _deep() -> Any:
    value: Any = 0
    for _ in range(3000):
        value = [value]
    return value


def _circle() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda: {"rate": [0.5, math.nan]}, "reference.rate[1]: expected a finite number, got nan"),
        (lambda: {"tags": {"a"}}, "reference.tags: expected a JSON type, got {'a'} (set): write sorted(value)"),
        (
            lambda: np.array([1]),
            "reference: expected a JSON type, got array([1]) (numpy.ndarray): write value.tolist()",
        ),
        (lambda: b"x", "reference: expected a JSON type, got b'x' (bytes): write value.decode()"),
        (lambda: {5: "x"}, "reference: expected string keys, got the key 5 (int)"),
        (lambda: np.str_("x"), "reference: expected a JSON type, got np.str_('x') (numpy.str_): write str(value)"),
    ],
    ids=["nan", "set", "array", "bytes", "int key", "numpy string"],
)
@pytest.mark.parametrize("shared", [True, False], ids=["one object", "an object each"])
def test_a_declared_input_is_json(make: Callable[[], Any], fault: str, shared: bool) -> None:
    """What can't be frozen is refused with its path and its group, whether the candidates share it or not."""
    value = make()
    batch = [*_sound(), *(_trajectory("bad", index, reference=value if shared else make()) for index in range(2))]
    error = _refusal(batch, match="not a JSON value:\n")
    assert error.message == f"not a JSON value:\n  {fault}"
    assert (error.group_id, error.trajectory_id) == ("bad", None)


def test_a_shared_circle_is_named_where_it_closes() -> None:
    """One object for all candidates is never compared, and freezing it finds that it leads back to itself."""
    circle = _circle()
    batch = [*_sound(), *(_trajectory("bad", index, reference=circle) for index in range(2))]
    error = _refusal(batch, match=r"^group 'bad': not a JSON value:\n")
    assert _lines(error) == ["reference[0]: the value contains itself"]


@pytest.mark.parametrize("make", [_deep, _circle, object], ids=["deep", "circle", "object"])
def test_inputs_that_can_not_be_compared_are_refused(make: Callable[[], Any]) -> None:
    """Endless or foreign values of their own in each candidate are no crash: the candidates are named."""
    batch = [*_sound(), *(_trajectory("bad", index, prompt=make()) for index in range(2))]
    (line,) = _lines(_refusal(batch))
    assert line.startswith("group 'bad', trajectory 'bad-1': its prompt is not that of the group's first candidate")


def test_every_input_that_can_not_be_frozen_is_named() -> None:
    """Prompt and reference of one group, and those of other groups, stand in one error."""
    one, other = {"tags": {1}}, [math.inf]
    batch = [
        *_sound(),
        *(_trajectory("a", index, prompt=one, reference=other) for index in range(2)),
        *(_trajectory("b", index, reference=one) for index in range(2)),
    ]
    for selection in (BOTH, _selection(("reference",), ("prompt",))):
        error = _refusal(batch, selection=selection, match="3 inputs can't be frozen:\n")
        assert error.message.splitlines()[1:] == [
            "group 'a': not a JSON value:",
            "  prompt.tags: expected a JSON type, got {1} (set): write sorted(value)",
            "group 'a': not a JSON value:",
            "  reference[0]: expected a finite number, got inf",
            "group 'b': not a JSON value:",
            "  reference.tags: expected a JSON type, got {1} (set): write sorted(value)",
        ]
        assert error.group_id is None
    assert _refusal(batch[:4], match="2 inputs can't be frozen").group_id == "a"


@pytest.mark.parametrize(
    "spoil", [lambda each: setattr(each, "completion", None), lambda each: setattr(each.obs, "reference", {1})]
)
def test_a_refused_batch_is_left_as_it_was(spoil: Callable[[Trajectory], None]) -> None:
    """Through the worker, no custom code runs and not a field of any trajectory is written."""
    batch = [*_sound(), *_sound("bad")]
    for each in batch[2:]:
        spoil(each)
        each.reward, each.advantage = {"step": 0.5, "final": 2.0}, 1.0
    before = copy.deepcopy(batch)
    worker = RewardWorker(catalog={"p": _spec(0, ("reference",))}, reward="p", group_size=2)
    with pytest.raises(RewardContractError, match="bad"):
        worker.score(batch)
    assert batch == before
