# SPDX-License-Identifier: Apache-2.0
"""Every hypothesis strategy of the suite, with the independent oracle that goes with JSON values."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from hypothesis import strategies as st

__all__ = [
    "canonical_text",
    "changed_in_one_place",
    "finite_floats",
    "json_scalars",
    "json_values",
    "plain",
    "shuffled",
    "text",
    "weights",
    "wide_floats",
]

# Some of the values that compilers, encoders and sloppy comparisons mix up.
_LOOK_ALIKES: tuple[Any, ...] = (0, 0.0, -0.0, False, 1, 1.0, True, "1", "", "0", None, "null", (), {}, 2**53, 2.0**53)

text = st.text(st.characters(exclude_categories=()), max_size=6)
"""Short text, lone surrogates included."""

finite_floats = st.floats(allow_nan=False, allow_infinity=False)
"""Every finite float: subnormals, both zeros and the largest ones included."""

wide_floats = st.one_of(
    finite_floats,
    st.sampled_from([1e308, -1e308, 5e-324, -5e-324, 1.7976931348623157e308, 0.1, -0.1, 1.0, 2.0**53, -0.0]),
)
"""Finite floats that crowd near the edges, so that sums overflow on the way and cancel."""

weights = st.one_of(st.integers(1, 10**6).map(float), st.floats(1e-6, 1e6))
"""Weights of a mean that keep every product well inside the range of a float."""

json_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(10**30, 10**40),
    finite_floats,
    text,
    st.sampled_from([value for value in _LOOK_ALIKES if not isinstance(value, (tuple, dict))]),
)
"""Scalars of JSON."""


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, max_size=4)
    mappings = st.dictionaries(text, inner, max_size=4)
    return st.one_of(
        lists,
        lists.map(tuple),
        mappings,
        mappings.map(MappingProxyType),
        mappings.map(OrderedDict),
    )


json_values = st.recursive(json_scalars, _containers, max_leaves=12)
"""Any JSON value, in every container that `freeze` accepts."""


def plain(value: Any) -> Any:
    """The same value in fresh lists and dicts, written apart from `thaw` so that it can check it."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def canonical_text(value: Any) -> str:
    """JSON text with sorted keys: two values are the same exactly when their texts are, `1`, `1.0` and `true` apart."""
    return json.dumps(plain(value), sort_keys=True, ensure_ascii=False, allow_nan=False)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _places(item, (*path, index))


def _replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    step, rest = path[0], path[1:]
    if isinstance(value, dict):
        return {key: _replaced(item, rest, new) if key == step else item for key, item in value.items()}
    return [_replaced(item, rest, new) if index == step else item for index, item in enumerate(value)]


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


@st.composite
def changed_in_one_place(draw: st.DrawFn, value: Any) -> Any:
    """`value` with one place changed, or by chance the same: an item dropped, added or replaced by a look-alike."""
    whole = plain(value)
    path = draw(st.sampled_from(list(_places(whole))))
    old = _at(whole, path)
    options: list[st.SearchStrategy[Any]] = [st.sampled_from(_LOOK_ALIKES), json_scalars, st.just(old)]
    if isinstance(old, list):
        options += [st.just(old[1:]), st.just(old[::-1]), json_scalars.map(lambda item: [*old, item])]
    if isinstance(old, dict):
        options += [
            st.just(dict(list(old.items())[1:])),
            st.tuples(text, json_scalars).map(lambda pair: {**old, pair[0]: pair[1]}),
        ]
    if isinstance(old, (int, float)) and abs(old) < 2**53:
        options += [st.just(float(old)), st.just(int(old)), st.just(-old), st.just(str(old)), st.just(bool(old))]
    return _replaced(whole, path, draw(st.one_of(options)))


@st.composite
def shuffled(draw: st.DrawFn, value: Any) -> Any:
    """The same JSON value with the keys of every mapping in another order and sequences of the other type."""
    if isinstance(value, Mapping):
        keys = draw(st.permutations(list(value)))
        return {key: draw(shuffled(value[key])) for key in keys}
    if isinstance(value, (list, tuple)):
        items = [draw(shuffled(item)) for item in value]
        return tuple(items) if draw(st.booleans()) else items
    return value
