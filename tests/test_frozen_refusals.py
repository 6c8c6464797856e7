# SPDX-License-Identifier: Apache-2.0
"""What is not JSON is refused, with every offending place named and no other."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime as dt
import decimal
import enum
import functools
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.errors import RewardContractError
from posttrain.frozen import MAX_DEPTH, freeze
from strategies import json_values, plain


class _Text(str):
    __slots__ = ()


class _Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass
class _Record:
    a: int = 1


def _refusal(value: object, path: str = "reference") -> str:
    with pytest.raises(RewardContractError, match="not a JSON value") as caught:
        freeze(value, path)
    return caught.value.message


REFUSED: list[tuple[str, object, str]] = [
    ("nan", math.nan, "expected a finite number, got nan"),
    ("inf", math.inf, "expected a finite number, got inf"),
    ("minus inf", -math.inf, "expected a finite number, got -inf"),
    ("set", {1}, "expected a JSON type, got {1} (set): write sorted(value)"),
    ("frozenset", frozenset({1}), "expected a JSON type, got frozenset({1}) (frozenset): write sorted(value)"),
    ("bytes", b"x", "expected a JSON type, got b'x' (bytes): write value.decode()"),
    ("bytearray", bytearray(b"x"), "expected a JSON type, got bytearray(b'x') (bytearray): write value.decode()"),
    ("str subclass", _Text("x"), f"expected a JSON type, got 'x' ({__name__}._Text): write str(value)"),
    ("int enum", _Level.LOW, f"expected a JSON type, got <_Level.LOW: 1> ({__name__}._Level): write int(value)"),
    ("float64", np.float64(1), "expected a JSON type, got np.float64(1.0) (numpy.float64): write float(value)"),
    ("numpy str", np.str_("x"), "expected a JSON type, got np.str_('x') (numpy.str_): write str(value)"),
    ("int64", np.int64(1), "expected a JSON type, got np.int64(1) (numpy.int64): write value.tolist()"),
    ("numpy bool", np.True_, "expected a JSON type, got np.True_ (numpy.bool): write value.tolist()"),
    ("array", np.array([1, 2]), "expected a JSON type, got array([1, 2]) (numpy.ndarray): write value.tolist()"),
    ("complex", 1j, "expected a JSON type, got 1j (complex)"),
    ("decimal", decimal.Decimal(1), "expected a JSON type, got Decimal('1') (decimal.Decimal)"),
    ("range", range(2), "expected a JSON type, got range(0, 2) (range)"),
    ("date", dt.date(2024, 1, 2), "expected a JSON type, got datetime.date(2024, 1, 2) (datetime.date)"),
    ("dataclass", _Record(), f"expected a JSON type, got _Record(a=1) ({__name__}._Record)"),
    ("ellipsis", ..., "expected a JSON type, got Ellipsis (ellipsis)"),
    ("deque", collections.deque([1]), "expected a JSON type, got deque([1]) (collections.deque)"),
]


@pytest.mark.parametrize(("value", "verdict"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_is_not_json_is_refused_with_the_fix(value: object, verdict: str) -> None:
    """The error gives the path, the value with its type, and how to write it instead where one way is right."""
    assert _refusal(value) == f"not a JSON value:\n  reference: {verdict}"
    assert _refusal({"arguments": [0, value]}) == f"not a JSON value:\n  reference.arguments[1]: {verdict}"
    assert _refusal(({"a b": value},)) == f"not a JSON value:\n  reference[0]['a b' (str)]: {verdict}"


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        (1, "1 (int)"),
        (None, "None"),
        (True, "True (bool)"),
        (("a", 1), "('a', 1) (tuple)"),
        (_Text("k"), f"'k' ({__name__}._Text)"),
        (b"k", "b'k' (bytes)"),
    ],
    ids=str,
)
def test_keys_other_than_strings_are_refused(key: Any, shown: str) -> None:
    """JSON would turn such keys into strings in silence, so each is named."""
    message = _refusal({"a": {key: 1, "fine": 2}})
    assert message == f"not a JSON value:\n  reference.a: expected string keys, got the key {shown}"


def test_every_offender_is_listed_and_nothing_else() -> None:
    """One error names all bad places, in order, under a bad key too; good paths are absent."""
    value = {
        "good": [1, "x", None],
        "rate": math.nan,
        "nested": {"fine": 1.5, "tags": {"a"}, "deep": [0, [b"raw", True]]},
        5: {"inner": math.inf},
    }
    assert _refusal(value).splitlines() == [
        "not a JSON value:",
        "  reference.rate: expected a finite number, got nan",
        "  reference.nested.tags: expected a JSON type, got {'a'} (set): write sorted(value)",
        "  reference.nested.deep[1][0]: expected a JSON type, got b'raw' (bytes): write value.decode()",
        "  reference: expected string keys, got the key 5 (int)",
        "  reference[5 (int)].inner: expected a finite number, got inf",
    ]


@given(st.lists(json_values, max_size=3), st.sets(st.integers(0, 5), min_size=1, max_size=3))
def test_each_bad_item_is_named_once(good: list[Any], bad: set[int]) -> None:
    """Bad items spliced between arbitrary good ones are the only places that the error names."""
    items: list[Any] = [{"v": plain(value)} for value in good]
    for position in sorted(bad):
        items.insert(min(position, len(items)), {"v": math.nan})
    named = [
        f"  v[{index}].v: expected a finite number, got nan"
        for index, item in enumerate(items)
        if type(item["v"]) is float and math.isnan(item["v"])
    ]
    assert _refusal(items, "v").splitlines() == ["not a JSON value:", *named]


def test_more_offenders_than_fit_are_counted() -> None:
    """A long column of bad values does not drown the log."""
    lines = _refusal([math.nan] * 25).splitlines()
    assert len(lines) == 22
    assert lines[1] == "  reference[0]: expected a finite number, got nan"
    assert lines[-1] == "  ... and 5 more"


def _list_in_itself() -> object:
    value: list[object] = [1]
    value.append({"again": value})
    return value


def _mapping_in_itself() -> object:
    value: dict[str, object] = {"a": 1}
    value["again"] = [value]
    return value


@pytest.mark.parametrize(
    ("make", "place"), [(_list_in_itself, "[1].again"), (_mapping_in_itself, ".again[0]")], ids=["list", "mapping"]
)
def test_a_cycle_is_named_where_it_closes(make: Callable[[], object], place: str) -> None:
    """A value that contains itself is refused at the place that leads back."""
    assert _refusal(make()) == f"not a JSON value:\n  reference{place}: the value contains itself"


def test_a_part_that_stands_twice_is_no_cycle() -> None:
    """One object in two places is fine: it is copied in each."""
    shared = {"a": [1]}
    assert freeze([shared, {"again": shared}, shared]) == ({"a": (1,)}, {"again": {"a": (1,)}}, {"a": (1,)})


@pytest.mark.parametrize("kind", [list, dict, tuple])
def test_one_level_too_deep_is_refused(kind: type) -> None:
    """MAX_DEPTH levels freeze, one more does not, and far more neither, without running out of stack."""

    def nested(depth: int) -> Any:
        value: Any = 0
        for _ in range(depth):
            value = {"k": value} if kind is dict else kind([value])
        return value

    assert MAX_DEPTH == 200
    assert freeze(nested(MAX_DEPTH))
    step = ".k" if kind is dict else "[0]"
    for depth in (MAX_DEPTH + 1, 5000):
        assert _refusal(nested(depth), "v") == f"not a JSON value:\n  v{step * MAX_DEPTH}: nested more than 200 deep"


def _with_little_stack(left: int, function: Callable[[], object]) -> object:
    """Call `function` where only about `left` more frames fit on the stack."""
    frame, used = sys._getframe(), 0
    while frame.f_back is not None:
        frame, used = frame.f_back, used + 1

    def sink(frames: int) -> object:
        return sink(frames - 1) if frames > 0 else function()

    return sink(sys.getrecursionlimit() - used - left)


@pytest.mark.parametrize("leaf", [0, math.nan], ids=["sound", "not JSON"])
def test_a_caller_with_little_stack_left_gets_a_contract_error(leaf: float) -> None:
    """Where the interpreter's stack can't hold the walk, or the walk that explains, the refusal is one of the tree."""
    value: Any = leaf
    for _ in range(MAX_DEPTH):
        value = {"k": value}
    for left in range(50, 300):
        # Any other error, above all a RecursionError, fails the test.
        with contextlib.suppress(RewardContractError):
            _with_little_stack(left, functools.partial(freeze, value))
    with pytest.raises(RewardContractError, match="value: the stack is too full to walk it"):
        _with_little_stack(100, lambda: freeze(value))
