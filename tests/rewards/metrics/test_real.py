# SPDX-License-Identifier: Apache-2.0
"""What counts as a number: real, finite, not a bool, from whatever library it comes."""

from __future__ import annotations

import decimal
import enum
import importlib
import importlib.util
import math
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from posttrain.rewards.metrics.real import as_real, why_not_real
from strategies import finite_floats


class _Scalar:
    """Looks to a reader without torch as a 0-d tensor does."""

    def __init__(self, value: Any) -> None:
        self.ndim = 0
        self._value = value

    def item(self) -> Any:
        return self._value


def _tensor() -> Callable[[Any], Any]:
    return importlib.import_module("torch").tensor if importlib.util.find_spec("torch") else _Scalar


tensor = _tensor()


class _Level(enum.IntEnum):
    HIGH = 3


@given(finite_floats)
def test_a_finite_float_is_itself(value: float) -> None:
    """Every finite float comes back bit for bit, from Python or as a numpy scalar or 0-d array."""
    for number in (value, np.float64(value), np.array(value)):
        real = as_real(number)
        assert type(real) is float
        assert real.hex() == value.hex()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, 3.0),
        (-(2**53), -(2.0**53)),
        (Fraction(1, 4), 0.25),
        (_Level.HIGH, 3.0),
        (np.int64(-7), -7.0),
        (np.uint8(255), 255.0),
        (np.float16(0.5), 0.5),
        # The float32 next to 0.1 is 13421773 / 2**27.
        (np.float32(0.1), 13421773 / 2**27),
        (np.array(2, dtype=np.int32), 2.0),
        (tensor(0.5), 0.5),
        (tensor(4), 4.0),
    ],
    ids=repr,
)
def test_numbers_of_any_library_become_python_floats(value: Any, expected: float) -> None:
    """Integers, fractions, numpy scalars and 0-d arrays or tensors are numbers, and come out as plain floats."""
    real = as_real(value)
    assert type(real) is float
    assert real == expected


REFUSED: list[Any] = [
    None,
    True,
    False,
    "1",
    "",
    b"1",
    math.nan,
    math.inf,
    -math.inf,
    1j,
    decimal.Decimal(1),
    [1.0],
    (1.0,),
    {"value": 1.0},
    object(),
    float,
    np.True_,
    np.float64("nan"),
    np.float32("inf"),
    np.complex128(1),
    np.str_("1"),
    np.array(True),
    np.array("1"),
    np.array(math.nan),
    np.array(None, dtype=object),
    np.array([1.0]),
    np.array([[1.0]]),
    np.array([]),
    np.datetime64("2024-01-01"),
    tensor(True),
    tensor(math.nan),
    tensor(math.inf),
    tensor(1j),
]


@pytest.mark.parametrize("value", REFUSED, ids=repr)
def test_everything_else_is_no_number(value: Any) -> None:
    """Bools, strings, None, NaN, infinities, complex numbers and anything with a shape are refused, with a reason."""
    assert as_real(value) is None
    reason = why_not_real(value)
    assert reason.startswith("got ")
    assert len(reason.splitlines()) == 1


def test_an_integer_beyond_the_range_of_a_float_is_no_number() -> None:
    """10**400 and a fraction of that size exceed the largest float and are refused rather than made infinite."""
    assert as_real(10**400) is None
    assert as_real(-(10**400)) is None
    assert as_real(Fraction(10**400)) is None
    assert as_real(int(sys.float_info.max)) == sys.float_info.max
    assert why_not_real(10**5000) == "got an int of 16610 bits, which is not finite as a float"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "got None: a candidate that can't be scored is an error, never a number; raise instead"),
        (True, "got True (bool): write float(ok)"),
        ("0.5", "got '0.5' (str): write float(value)"),
        (math.nan, "got nan (float), which is not finite as a float"),
        (np.float64("inf"), "got np.float64(inf) (numpy.float64), which is not finite as a float"),
        (np.array([0.5]), "got array([0.5]) (numpy.ndarray): one number per candidate, write float(value.item())"),
        ([0.5], "got [0.5] (list)"),
    ],
    ids=repr,
)
def test_a_refusal_says_what_came_and_how_to_write_it(value: Any, expected: str) -> None:
    """The reason shows the value with its type, and the fix where there is one."""
    assert why_not_real(value) == expected


def test_a_masked_entry_is_no_number() -> None:
    """The marker of numpy for a missing value is not read as a score of 0.0."""
    assert as_real(np.ma.masked) is None


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(np.datetime64(5, "ns"), id="datetime64"),
        pytest.param(np.timedelta64(5, "ns"), id="timedelta64 in ns"),
        pytest.param(np.timedelta64(5, "s"), id="timedelta64 in s"),
        pytest.param(np.timedelta64("NaT", "s"), id="NaT"),
    ],
)
def test_dates_and_durations_are_no_numbers(value: Any) -> None:
    """A date or a duration has a unit: it is refused, not read as a number and not a crash."""
    assert as_real(value) is None


class _Unreadable:
    """A 0-d tensor whose value can't be had, as one on a meta device."""

    ndim = 0

    def item(self) -> Any:
        raise RuntimeError("no data")


def test_a_scalar_without_data_is_no_number() -> None:
    """A tensor that can't give its value is refused like any other value that is no number."""
    assert as_real(_Unreadable()) is None
