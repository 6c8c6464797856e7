# SPDX-License-Identifier: Apache-2.0
"""Binding forms groups by id alone and gives each provider a private, frozen copy of exactly what it declared."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.rewards.catalog.catalog import RewardCatalog
from posttrain.rewards.contract.pointwise import map_candidates
from posttrain.rewards.contract.request import RewardCandidate, RewardContext
from posttrain.rewards.contract.result import RewardProviderResult
from posttrain.rewards.contract.spec import RewardProviderSpec
from posttrain.rewards.stage.bind import BoundGroup, bind
from posttrain.rewards.stage.prepare import Selection, select
from posttrain.rewards.stage.worker import RewardWorker
from posttrain.schema import Observation, Trajectory
from strategies import canonical_text, json_values, shuffled


def _score(candidate: RewardCandidate, context: RewardContext) -> RewardProviderResult:
    return RewardProviderResult({"task": float(context.reference == "cat")})


def _selection(*needs: tuple[str, ...]) -> Selection:
    """One provider for each tuple of needs."""
    factory = functools.partial(map_candidates, _score)
    specs = {
        f"p{index}": RewardProviderSpec(factory=factory, revision="1", terms=(f"term{index}",), needs=each)
        for index, each in enumerate(needs)
    }
    return select(RewardCatalog(specs), list(specs))


def _trajectory(group: str, index: int, prompt: Any = "p", reference: Any = "r", **fields: Any) -> Trajectory:
    made: dict[str, Any] = {
        "trajectory_id": f"{group}-{index}",
        "group_id": group,
        "obs": Observation(id=group, prompt=prompt, reference=reference),
        "completion": f"text of {group}-{index}",
    }
    return Trajectory(**{**made, **fields})


def _group(group: str, size: int = 2, **inputs: Any) -> list[Trajectory]:
    return [_trajectory(group, index, **inputs) for index in range(size)]


def _ids(groups: Sequence[BoundGroup]) -> list[tuple[str, tuple[str, ...]]]:
    return [(group.group_id, group.trajectory_ids) for group in groups]


@given(st.data(), st.integers(1, 4), st.integers(1, 4))
def test_rows_of_different_groups_may_interleave(data: st.DataObject, count: int, size: int) -> None:
    """In any order of rows groups come out by first appearance, candidates in rollout order, each with its own text."""
    rows = [row for number in range(count) for row in _group(f"g{number}", size)]
    batch = data.draw(st.permutations(rows))
    groups = bind(batch, _selection(()), size)
    expected = {each.group_id: [row for row in batch if row.group_id == each.group_id] for each in batch}
    assert _ids(groups) == [(name, tuple(row.trajectory_id for row in members)) for name, members in expected.items()]
    for group in groups:
        assert [each.completion for each in group.requests[0].candidates] == [
            f"text of {each}" for each in group.trajectory_ids
        ]


def test_groups_of_the_same_words_stay_apart() -> None:
    """Two occurrences of one prompt text are two groups: the key is the group's id, never what it says."""
    rows = [
        *[_trajectory("g1", index, "Describe it.", "cat") for index in range(2)],
        *[_trajectory("g2", index, "Describe it.", "dog") for index in range(2)],
    ]
    batch = [rows[0], rows[2], rows[1], rows[3]]
    groups = bind(batch, _selection(("prompt", "reference")), 2)
    assert [group.requests[0].context.reference for group in groups] == ["cat", "dog"]
    factory = functools.partial(map_candidates, _score)
    spec = RewardProviderSpec(factory=factory, revision="1", terms=("task",), needs=("prompt", "reference"))
    RewardWorker(catalog={"pets": spec}, reward="pets", group_size=2).score(batch)
    # Rewards 1 1 and 0 0: each group is without spread. As one group of 1 1 0 0 they would get 0.5 / 0.577 = 0.866.
    assert [(each.reward["final"], each.advantage) for each in rows] == [(1.0, 0.0), (1.0, 0.0), (0.0, 0.0), (0.0, 0.0)]


def test_a_row_that_was_drawn_twice_makes_two_groups() -> None:
    """Occurrences of one row share their input objects and their row id, and are still bound apart."""
    conversation = [{"role": "user", "content": "Hi"}]
    batch = [*_group("g1", prompt=conversation), *_group("g2", prompt=conversation)]
    assert _ids(bind(batch, _selection(("prompt",)), 2)) == [("g1", ("g1-0", "g1-1")), ("g2", ("g2-0", "g2-1"))]


def test_a_candidate_carries_what_the_rollout_recorded() -> None:
    """Completion, token count and verdict are handed over as they are; what was not recorded is None."""
    batch = [
        _trajectory("g", 0, completion="", policy_info={"completion_token_count": 0, "finish_reason": "length"}),
        _trajectory("g", 1, policy_info={"finish_reason": None, "log_probs": [-0.5]}),
    ]
    (group,) = bind(batch, _selection(()), 2)
    assert group.requests[0].candidates == (
        RewardCandidate("g-0", "", 0, "length"),
        RewardCandidate("g-1", "text of g-1", None, None),
    )


@pytest.mark.parametrize("needs", [(), ("prompt",), ("reference",), ("prompt", "reference")])
def test_a_provider_is_given_what_it_declares(needs: tuple[str, ...]) -> None:
    """Whatever others declare, the inputs that this provider did not are None in its context."""
    (group,) = bind(_group("g"), _selection(needs, ("prompt", "reference")), 2)
    mine, all_of_it = (request.context for request in group.requests)
    assert mine == RewardContext(
        prompt="p" if "prompt" in needs else None, reference="r" if "reference" in needs else None
    )
    assert all_of_it == RewardContext(prompt="p", reference="r")
    assert group.requests[0].candidates == group.requests[1].candidates


@given(json_values.filter(lambda value: value is not None))
def test_inputs_are_handed_over_type_for_type(value: Any) -> None:
    """Any JSON value arrives as the same value, mappings frozen and sequences as tuples."""
    (group,) = bind(_group("g", prompt=value, reference=value), _selection(("prompt", "reference")), 2)
    context = group.requests[0].context
    assert canonical_text(context.prompt) == canonical_text(context.reference) == canonical_text(value)


def test_later_changes_of_a_trajectory_do_not_reach_a_provider() -> None:
    """The request is detached: changing the rollout's own containers, at any depth, changes nothing in it."""
    prompt = [{"role": "user", "content": ["Hi"]}]
    reference = {"ids": [1, 2], "arguments": {"count": 3}}
    batch = _group("g", prompt=prompt, reference=reference)
    (group,) = bind(batch, _selection(("prompt", "reference")), 2)
    before = copy.deepcopy(group)
    content: Any = prompt[0]["content"]
    content.append("changed")
    prompt.append({"role": "assistant"})
    reference["ids"], reference["more"] = [], {}
    batch[0].completion, batch[0].policy_info["finish_reason"] = "changed", "length"
    batch[0].obs.reference = None
    assert group == before
    context = group.requests[0].context
    assert context.prompt == ({"role": "user", "content": ("Hi",)},)
    assert context.reference == {"ids": (1, 2), "arguments": {"count": 3}}


def test_a_provider_can_not_change_its_inputs() -> None:
    """Mappings raise, sequences are tuples, and neither request nor context can be written to."""
    (group,) = bind(_group("g", reference={"ids": [1]}), _selection(("reference",)), 2)
    request = group.requests[0]
    reference: Any = request.context.reference
    with pytest.raises(TypeError, match=r"frozen: .* thaw\(\)"):
        reference["ids"] = ()
    assert type(reference["ids"]) is tuple
    for record, field in (
        (request, "candidates"),
        (request.context, "reference"),
        (request.candidates[0], "completion"),
    ):
        with pytest.raises(AttributeError, match="immutable"):
            setattr(record, field, None)


def test_providers_share_no_container() -> None:
    """One that forces a change into its own copy, past the frozen mapping's methods, changes no other's."""
    prompt = [{"role": "user", "parts": [{"text": "Hi"}]}]
    (group,) = bind(_group("g", prompt=prompt), _selection(("prompt",), ("prompt",)), 2)
    first, second = (request.context.prompt for request in group.requests)
    assert first == second
    one: Any = first
    dict.__setitem__(one[0], "role", "system")
    dict.clear(one[0]["parts"][0])
    assert second == ({"role": "user", "parts": ({"text": "Hi"},)},)
    assert prompt == [{"role": "user", "parts": [{"text": "Hi"}]}]


class _Counted(Mapping[str, Any]):
    """A mapping that counts how often it is walked."""

    def __init__(self, **items: Any) -> None:
        self.items_held, self.walks = items, 0

    def __getitem__(self, key: str) -> Any:
        return self.items_held[key]

    def __iter__(self) -> Iterator[str]:
        self.walks += 1
        return iter(self.items_held)

    def __len__(self) -> int:
        return len(self.items_held)


def test_a_shared_input_is_frozen_once_per_group() -> None:
    """An object that all candidates of a group share is walked once for each provider, however large the group."""
    shared = _Counted(target=3)
    (group,) = bind(_group("g", size=16, reference=shared), _selection(("reference",)), 16)
    assert group.requests[0].context.reference == {"target": 3}
    assert shared.walks == 1
    bind(_group("g", size=16, reference=shared), _selection(("reference",), (), ("prompt", "reference")), 16)
    assert shared.walks == 1 + 2
    bind([*_group("g", reference=shared), *_group("h", reference=shared)], _selection(("reference",)), 2)
    assert shared.walks == 1 + 2 + 2


def _unfreezable() -> dict[str, Callable[[], Any]]:
    circle: list[Any] = []
    circle.append(circle)
    return {"an object": object, "a set": lambda: {1}, "an array": lambda: np.eye(2), "a circle": lambda: circle}


@pytest.mark.parametrize("make", _unfreezable().values(), ids=_unfreezable())
def test_undeclared_inputs_are_not_looked_at(make: Callable[[], Any]) -> None:
    """What no selected provider declares may be anything, differ inside the group, or be missing."""
    batch = [_trajectory("g", 0, reference=make()), _trajectory("g", 1, reference=None)]
    (group,) = bind(batch, _selection(("prompt",), ()), 2)
    assert [request.context.reference for request in group.requests] == [None, None]
    counted = _Counted(a=1)
    bind(_group("g", reference=counted), _selection(("prompt",)), 2)
    assert counted.walks == 0


@given(st.data(), json_values.filter(lambda value: value is not None))
def test_equal_inputs_need_not_be_one_object(data: st.DataObject, value: Any) -> None:
    """The same JSON value in other objects, keys in another order and tuples for lists, is the same input."""
    batch = [_trajectory("g", index, reference=data.draw(shuffled(value))) for index in range(3)]
    (group,) = bind(batch, _selection(("reference",)), 3)
    assert canonical_text(group.requests[0].context.reference) == canonical_text(value)


def test_binding_changes_no_trajectory() -> None:
    """Not a field of any record is written, and its containers stay its own."""
    reference = {"ids": [1]}
    batch = _group("g", reference=reference, reward={"step": 0.5}, policy_info={"finish_reason": "stop"})
    before = copy.deepcopy(batch)
    bind(batch, _selection(("prompt", "reference")), 2)
    assert batch == before
    assert batch[0].obs.reference is reference
    assert type(reference["ids"]) is list


def test_a_subclass_of_a_record_is_bound() -> None:
    """A trainer may carry fields of its own, also in the dicts' types."""

    class _Info(dict[str, Any]):
        pass

    class _Step(Trajectory):
        pass

    batch = [
        _Step(**{name: getattr(each, name) for name in ("trajectory_id", "group_id", "obs", "completion")})
        for each in _group("g")
    ]
    batch[0].policy_info = _Info(finish_reason="length")
    (group,) = bind(list(batch), _selection(()), 2)
    assert [each.is_length_truncated for each in group.requests[0].candidates] == [True, False]


@given(st.integers(1, 40), st.integers(1, 5))
def test_a_long_batch_is_bound_like_a_short_one(count: int, size: int) -> None:
    """Batches of any length, in groups of any size, come out whole and in order."""
    batch = [row for number in range(count) for row in _group(f"g{number}", size)]
    assert _ids(bind(batch, _selection(("prompt",)), size)) == [
        (f"g{number}", tuple(f"g{number}-{index}" for index in range(size))) for number in range(count)
    ]
