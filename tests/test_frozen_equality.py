# SPDX-License-Identifier: Apache-2.0
"""Equality of JSON values is structural and type-strict, and a difference is said in words."""

from __future__ import annotations

import copy
import enum
import itertools
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.frozen import MAX_DEPTH, Json, first_difference, freeze, strict_equal
from strategies import canonical_text, changed_in_one_place, json_values, shuffled

pairs = json_values.flatmap(lambda value: st.tuples(st.just(value), changed_in_one_place(value)))
triples = json_values.flatmap(
    lambda value: st.tuples(shuffled(value), changed_in_one_place(value), changed_in_one_place(value))
)


@given(pairs)
def test_equality_agrees_with_canonical_json(pair: tuple[Json, Json]) -> None:
    """Two values are equal exactly when their JSON texts with sorted keys are, whichever of them is frozen."""
    left, right = pair
    expected = canonical_text(left) == canonical_text(right)
    assert strict_equal(left, right) is expected
    assert strict_equal(freeze(left), right) is expected
    assert strict_equal(left, freeze(right)) is expected
    assert strict_equal(freeze(left), freeze(right)) is expected


@given(json_values, json_values)
def test_equality_agrees_with_canonical_json_on_unrelated_values(left: Json, right: Json) -> None:
    """The same holds for two values that have nothing to do with each other."""
    assert strict_equal(left, right) is (canonical_text(left) == canonical_text(right))


@given(json_values)
def test_every_value_equals_its_copies(value: Json) -> None:
    """A value equals itself, its frozen form, a deep copy, and what is read again from its JSON text."""
    assert strict_equal(value, value)
    assert strict_equal(value, freeze(value))
    assert strict_equal(freeze(value), copy.deepcopy(freeze(value)))
    # Copies keep the scalars themselves; what is read from text holds equal ones that are other objects.
    assert strict_equal(value, json.loads(canonical_text(value)))


@given(st.data())
def test_the_order_of_keys_does_not_matter(data: st.DataObject) -> None:
    """Reordered mappings are equal at every depth, and a list equals the tuple that it freezes to."""
    value = data.draw(json_values)
    other = data.draw(shuffled(value))
    assert strict_equal(value, other)
    assert first_difference(value, other) is None


@given(triples)
def test_equality_is_symmetric_and_transitive(triple: tuple[Json, Json, Json]) -> None:
    """Either order gives one answer, and equals of an equal are equal."""
    for one, other in itertools.combinations(triple, 2):
        assert strict_equal(one, other) is strict_equal(other, one)
    for one, middle, other in itertools.permutations(triple):
        if strict_equal(one, middle) and strict_equal(middle, other):
            assert strict_equal(one, other)


FAMILIES: list[list[Any]] = [
    [1, True, 1.0, "1"],
    [0, False, 0.0, -0.0, "0", None, "", [], {}],
    [2**53, 2.0**53, 2**53 + 1],
    [[1, 2], [2, 1], [1, 2, 2], [1], [[1, 2]], [1, [2]]],
    [{"a": 1}, {"a": 1.0}, {"a": True}, {"A": 1}, {"a": 1, "b": None}, {"b": None}, [("a", 1)]],
    [None, "null", "None"],
    ["\ud83d\ude00", "\U0001f600"],
]


@pytest.mark.parametrize("family", FAMILIES, ids=str)
@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: {"k": [0, value]}], ids=["bare", "nested"])
def test_look_alikes_are_all_different(family: list[Any], wrap: Any) -> None:
    """No two values of a family that Python, JSON or a shell would confuse are equal, bare or deep inside."""
    for (first, one), (second, other) in itertools.product(enumerate(family), repeat=2):
        same = first == second
        assert strict_equal(wrap(one), copy.deepcopy(wrap(other))) is same, (one, other)
        assert (first_difference(wrap(one), copy.deepcopy(wrap(other))) is None) is same, (one, other)


@given(pairs)
def test_a_difference_is_found_exactly_when_there_is_one(pair: tuple[Json, Json]) -> None:
    """first_difference is None for equal values, and one line that begins with the path for others."""
    left, right = pair
    found = first_difference(left, right, "reference")
    assert (found is None) is strict_equal(left, right)
    if found is not None:
        assert found.startswith("reference")
        assert len(found.splitlines()) == 1


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (1, True, "reference is 1 (int) in the first and True (bool) in the second"),
        (0.0, -0.0, "reference is 0.0 (float) in the first and -0.0 (float) in the second"),
        ([1], {"a": 1}, "reference is [1] (list) in the first and {'a': 1} (dict) in the second"),
        (
            {"arguments": [1, 2, 3]},
            {"arguments": (1, 2, 4)},
            "reference.arguments[2] is 3 (int) in the first and 4 (int) in the second",
        ),
        ({"a": 1}, {}, "reference.a is missing from the second"),
        ({}, {"a": 1}, "reference.a is missing from the first"),
        ({"a b": 1}, {"a b": 2}, "reference['a b' (str)] is 1 (int) in the first and 2 (int) in the second"),
        ([1, 2], [1], "reference has 2 items in the first and 1 in the second"),
        ([], [None], "reference has 0 items in the first and 1 in the second"),
        # The first difference counts, not the length.
        ([5, 2], [1], "reference[0] is 5 (int) in the first and 1 (int) in the second"),
    ],
)
def test_a_difference_is_said_in_words(left: Json, right: Json, expected: str) -> None:
    """The path of the first difference and both sides, each with its type."""
    assert first_difference(left, right, "reference") == expected


def test_long_texts_that_differ_late_read_differently() -> None:
    """Two long prompts with one beginning are told apart by what is shown of them."""
    found = first_difference("a" * 100 + "b", "a" * 100 + "c")
    assert found is not None
    first, _, second = found.removeprefix("value is ").partition(" in the first and ")
    assert first != second.removesuffix(" in the second")


@pytest.mark.parametrize("kind", [list, dict])
def test_the_deepest_values_can_be_compared(kind: type) -> None:
    """Nesting of MAX_DEPTH leaves enough stack for both comparisons."""
    left: Any = 1
    right: Any = True
    for _ in range(MAX_DEPTH):
        left, right = ([left], [right]) if kind is list else ({"k": left}, {"k": right})
    assert strict_equal(left, freeze(left))
    assert not strict_equal(left, right)
    found = first_difference(left, right, "v")
    assert found is not None
    assert found.endswith("is 1 (int) in the first and True (bool) in the second")


def test_values_that_cannot_be_frozen_equal_only_themselves() -> None:
    """NaN, sets and objects of unknown types equal nothing but the very same object."""
    nan, members = math.nan, {1}
    assert strict_equal(nan, nan)
    assert strict_equal(members, members)
    assert not strict_equal(nan, float("nan"))
    assert not strict_equal(members, {1})
    assert not strict_equal({1: "a"}, {1: "a"})
    assert not strict_equal(b"ab", bytes(bytearray(b"ab")))


class _Name(enum.StrEnum):
    A = "a"


@pytest.mark.parametrize("kind", [list, dict])
def test_values_beyond_the_stack_are_no_crash(kind: type) -> None:
    """Values nested too deep to be frozen, or in a circle, equal nothing but themselves, and that is said in words."""
    pair = []
    for _ in range(2):
        value: Any = 0
        for _ in range(3000):
            value = {"k": value} if kind is dict else [value]
        pair.append(value)
    circles: list[Any] = [{}, {}] if kind is dict else [[0], [0]]
    for circle in circles:
        circle["k" if kind is dict else 0] = circle
    for left, right in (pair, circles):
        assert strict_equal(left, left)
        assert not strict_equal(left, right)
        assert first_difference(left, left, "reference") is None
        assert first_difference(left, right, "reference") == "reference is nested too deep to be compared"


def test_keys_that_only_look_like_strings_are_refused_on_either_side() -> None:
    """A mapping with a key of a str subclass can't be frozen, so it equals no other, asked from either side."""
    assert not strict_equal({"a": 1}, {_Name.A: 1})
    assert not strict_equal({_Name.A: 1}, {"a": 1})
