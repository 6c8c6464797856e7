# SPDX-License-Identifier: Apache-2.0
"""Freezing detaches and makes immutable, thawing undoes it, and everything that reads JSON still reads the result."""

from __future__ import annotations

import copy
import json
import operator
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.frozen import MAX_DEPTH, Json, freeze, thaw
from strategies import canonical_text, json_values, plain

MUTATORS: dict[str, Callable[[Any], object]] = {
    "setitem": lambda mapping: operator.setitem(mapping, "new", 1),
    "setitem of a present key": lambda mapping: operator.setitem(mapping, next(iter(mapping), "k"), 1),
    "delitem": lambda mapping: operator.delitem(mapping, next(iter(mapping), "k")),
    "ior": lambda mapping: mapping.__ior__({"new": 1}),
    "ior with nothing": lambda mapping: mapping.__ior__({}),
    "clear": lambda mapping: mapping.clear(),
    "pop": lambda mapping: mapping.pop(next(iter(mapping), "k")),
    "pop with a default": lambda mapping: mapping.pop("absent", None),
    "popitem": lambda mapping: mapping.popitem(),
    "setdefault": lambda mapping: mapping.setdefault("new", 1),
    "update": lambda mapping: mapping.update({"new": 1}),
    "update by keyword": lambda mapping: mapping.update(new=1),
    "update with nothing": lambda mapping: mapping.update(),
    "init": lambda mapping: mapping.__init__({"new": 1}),
    "init with nothing": lambda mapping: mapping.__init__(),
    "its own type": lambda mapping: type(mapping)({"new": 1}),
    "fromkeys": lambda mapping: mapping.fromkeys(["new"]),
    "another class": lambda mapping: setattr(mapping, "__class__", dict),
}


def _mappings(value: Any) -> Iterator[dict[str, Any]]:
    """Every mapping inside a frozen value, itself included; anything but dicts, tuples and scalars is a failure."""
    if isinstance(value, dict):
        assert type(value) is not dict
        yield value
        for item in value.values():
            yield from _mappings(item)
    elif isinstance(value, tuple):
        assert type(value) is tuple
        for item in value:
            yield from _mappings(item)
    else:
        assert type(value) in {str, int, float, bool, type(None)}


def _containers(value: Any) -> Iterator[Any]:
    if isinstance(value, (dict, list)):
        yield value
        for item in value.values() if isinstance(value, dict) else value:
            yield from _containers(item)


def _assert_frozen(value: Any) -> None:
    for mapping in _mappings(value):
        with pytest.raises(TypeError, match="frozen"):
            mapping["new"] = 1


def _nested(kind: str, depth: int) -> Any:
    value: Any = "core"
    for level in range(depth):
        as_mapping = kind == "mappings" or (kind == "both" and level % 2)
        value = {"k": value} if as_mapping else [value]
    return value


@given(json_values)
def test_freezing_keeps_the_value(value: Json) -> None:
    """The frozen value says the same as the original, type for type, and the original is as it was."""
    before = canonical_text(value)
    assert canonical_text(freeze(value)) == before
    assert canonical_text(value) == before


@given(json_values)
def test_key_order_survives(value: Json) -> None:
    """Mappings keep the order of their keys, which a prompt template may depend on."""
    assert json.dumps(freeze(value)) == json.dumps(plain(value))


@given(json_values)
def test_changing_the_original_never_changes_the_frozen(value: Json) -> None:
    """Emptying every container of the original leaves the frozen value alone."""
    original = plain(value)
    before = canonical_text(original)
    frozen = freeze(original)
    for container in list(_containers(original)):
        container.clear()
    assert canonical_text(frozen) == before


@given(json_values)
def test_every_mutator_of_every_nested_mapping_raises(value: Json) -> None:
    """No public way to change a mapping works at any depth, whether or not it would have changed anything."""
    frozen = freeze(value)
    before = canonical_text(frozen)
    for mapping in _mappings(frozen):
        for mutate in MUTATORS.values():
            with pytest.raises(TypeError, match=r"frozen|__class__"):
                mutate(mapping)
    assert canonical_text(frozen) == before


def test_the_refusal_names_the_way_out() -> None:
    """Whoever tries to change a frozen mapping reads that thaw() gives a private copy."""
    frozen: Any = freeze({"a": 1})
    with pytest.raises(TypeError, match=r"private copy with thaw\(\)"):
        frozen["a"] = 2


def test_every_mutating_method_of_dict_is_refused() -> None:
    """A method that dict gains and that isn't listed here is noticed: all others leave a mapping as it is."""
    reading = {"copy", "get", "items", "keys", "values"}
    methods = {name for name in dir(dict) if not name.startswith("_")} - reading
    refused = {name.partition(" ")[0] for name in MUTATORS}
    assert methods <= refused


def test_copies_that_reading_methods_give_are_not_shared() -> None:
    """`copy` and `|` give plain dicts of their own, and what hangs below them stays frozen."""
    frozen: Any = freeze({"a": {"b": 1}})
    for own in (frozen.copy(), frozen | {"c": 2}, {**frozen}):
        own["new"] = 1
        with pytest.raises(TypeError, match="frozen"):
            own["a"]["b"] = 2
    assert frozen == {"a": {"b": 1}}


def test_a_frozen_mapping_takes_no_attributes() -> None:
    """Nothing can be hidden on the object beside its items."""
    with pytest.raises(AttributeError, match="extra"):
        freeze({"a": 1}).extra = 1  # type: ignore[union-attr]  # the mistake under test


@given(json_values)
def test_thawing_gives_a_fresh_mutable_copy(value: Json) -> None:
    """thaw(freeze(x)) equals x, is made of plain dicts and lists, and shares no container with anything."""
    original = plain(value)
    frozen = freeze(original)
    thawed, again = thaw(frozen), thaw(frozen)
    assert canonical_text(thawed) == canonical_text(original)
    containers = list(_containers(thawed))
    assert all(type(container) in {dict, list} for container in containers)
    others = {id(each) for owner in (original, again) for each in _containers(owner)}
    others |= {id(mapping) for mapping in _mappings(frozen)}
    assert others.isdisjoint(map(id, containers))
    for container in containers:
        container.clear()
    assert canonical_text(frozen) == canonical_text(original)


def test_a_shared_part_is_thawed_twice() -> None:
    """Two places that held one object hold two after thawing, so that changing one can't change the other."""
    shared = [1]
    thawed = thaw(freeze({"a": shared, "b": shared}))
    thawed["a"].append(2)
    assert thawed == {"a": [1, 2], "b": [1]}


@given(json_values)
def test_json_writers_take_a_frozen_value(value: Json) -> None:
    """The standard library and msgspec write a frozen value as they write the thawed one."""
    frozen = freeze(value)
    assert json.dumps(frozen) == json.dumps(thaw(frozen))
    if _is_utf8(value):
        assert json.loads(msgspec.json.encode(frozen)) == json.loads(msgspec.json.encode(plain(value)))
        assert msgspec.json.encode(frozen) == msgspec.json.encode(plain(value))


def _is_utf8(value: Json) -> bool:
    # msgspec writes UTF-8, which has no lone surrogates.
    try:
        canonical_text(value).encode()
    except UnicodeEncodeError:
        return False
    return True


@given(json_values, st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_pickling_stays_frozen(pickled: Callable[..., Any], value: Json, protocol: int) -> None:
    """A pickled value comes back the same and as immutable."""
    frozen = freeze(value)
    back = pickled(frozen, protocol)
    assert canonical_text(back) == canonical_text(frozen)
    _assert_frozen(back)


@given(json_values, st.sampled_from([copy.copy, copy.deepcopy]))
def test_copying_stays_frozen(value: Json, duplicate: Callable[[Any], Any]) -> None:
    """A shallow or deep copy is the same and as immutable."""
    frozen = freeze(value)
    twin = duplicate(frozen)
    assert canonical_text(twin) == canonical_text(frozen)
    _assert_frozen(twin)


@given(json_values)
def test_freezing_twice_is_freezing_once(value: Json) -> None:
    """A frozen value can be frozen again, for a provider with a copy of its own."""
    once = freeze(value)
    twice = freeze(once)
    assert canonical_text(twice) == canonical_text(once)
    _assert_frozen(twice)
    assert {id(mapping) for mapping in _mappings(once)}.isdisjoint(id(mapping) for mapping in _mappings(twice))


def test_a_frozen_mapping_is_a_dict() -> None:
    """Code that asks for a dict gets one, and reads it like any other."""
    frozen = freeze({"b": [1, 2], "a": None})
    assert isinstance(frozen, dict)
    assert list(frozen) == ["b", "a"]
    assert frozen["b"] == (1, 2)
    assert frozen.get("absent", 3) == 3
    assert repr(frozen) == "{'b': (1, 2), 'a': None}"


@pytest.mark.parametrize("kind", ["lists", "mappings", "both"])
def test_the_deepest_value_freezes(pickled: Callable[..., Any], kind: str) -> None:
    """Nesting of exactly MAX_DEPTH is accepted, survives a round trip through pickle and is written as JSON."""
    value = _nested(kind, MAX_DEPTH)
    frozen = freeze(value)
    assert json.loads(json.dumps(frozen)) == value
    assert thaw(frozen) == value
    assert canonical_text(pickled(frozen)) == canonical_text(value)


@pytest.mark.parametrize(
    "kind",
    ["lists", "mappings", "both"],
)
def test_the_deepest_value_can_be_deep_copied(kind: str) -> None:
    """Nesting of MAX_DEPTH leaves enough stack for copy.deepcopy too."""
    frozen = freeze(_nested(kind, MAX_DEPTH))
    assert canonical_text(copy.deepcopy(frozen)) == canonical_text(frozen)
