# SPDX-License-Identifier: Apache-2.0
"""The error tree: what it prints, what survives pickling, and that describing a value can't fail."""

from __future__ import annotations

import base64
import copy
import enum
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.errors import (
    RewardConfigError,
    RewardContractError,
    RewardError,
    RewardUnavailableError,
    describe,
    listing,
    text_of,
)
from strategies import json_values, text

LEAVES = [RewardContractError, RewardUnavailableError, RewardConfigError]


class _Unprintable(Exception):  # noqa: N818  # a name that says what it does
    """Neither its text nor its repr can be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


@pytest.mark.parametrize("kind", LEAVES)
def test_the_tree_has_one_root_and_three_leaves(kind: type[RewardError]) -> None:
    """Catching RewardError catches each leaf, and no leaf catches another."""
    assert kind.__bases__ == (RewardError,)
    assert RewardError.__bases__ == (Exception,)
    assert set(RewardError.__subclasses__()) >= set(LEAVES)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({}, "too short"),
        ({"provider": "rubric"}, "provider 'rubric': too short"),
        ({"group_id": "g-1"}, "group 'g-1': too short"),
        ({"group_id": ""}, "group '': too short"),
        ({"trajectory_id": "t-1"}, "trajectory 't-1': too short"),
        (
            {"trajectory_id": "t-1", "provider": "rubric", "group_id": "g-1"},
            "provider 'rubric', group 'g-1', trajectory 't-1': too short",
        ),
    ],
)
def test_the_text_names_whom_it_is_about(names: dict[str, str], expected: str) -> None:
    """The names that are known stand before the message, always in the order provider, group, trajectory."""
    error = RewardContractError("too short", **names)
    assert str(error) == expected
    assert error.message == "too short"


def test_names_that_are_attached_later_appear_in_the_text() -> None:
    """The boundary adds names to an error in flight by setting its attributes."""
    error = RewardUnavailableError("timed out")
    error.provider, error.group_id = "judge", "g"
    assert str(error) == "provider 'judge', group 'g': timed out"


def test_names_of_one_error_do_not_leak_into_another() -> None:
    """The attributes belong to the object, not to the class."""
    RewardContractError("first", provider="p").group_id = "g"
    assert (RewardContractError("second").provider, RewardContractError.group_id) == (None, None)


@given(text, text, text)
def test_any_identity_prints_on_one_line(provider: str, group_id: str, trajectory_id: str) -> None:
    """Ids with line breaks, quotes or lone surrogates are shown escaped and can be written to a UTF-8 log."""
    error = RewardContractError("m", provider=provider, group_id=group_id, trajectory_id=trajectory_id)
    assert len(str(error).splitlines()) == 1
    assert str(error).encode()


def _filled(kind: type[RewardError]) -> RewardError:
    error = kind("broken", provider="p", group_id="g", trajectory_id="t")
    error.because_of(ConnectionResetError("peer left"))
    error.request = {"group_id": "g"}
    return error


def _same(one: RewardError, other: RewardError) -> bool:
    return type(one) is type(other) and one.args == other.args and vars(one) == vars(other) and str(one) == str(other)


@pytest.mark.parametrize("kind", [RewardError, *LEAVES])
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickling_keeps_every_attribute(pickled: Callable[..., Any], kind: type[RewardError], protocol: int) -> None:
    """Names, the cause's type and text and the request come back under every protocol."""
    error = _filled(kind)
    back = pickled(error, protocol)
    assert _same(back, error)
    assert (back.cause_type, back.cause_text) == ("ConnectionResetError", "peer left")


def test_copying_keeps_every_attribute() -> None:
    """Copies, shallow and deep, are the same error."""
    error = _filled(RewardUnavailableError)
    assert _same(copy.copy(error), error)
    assert _same(copy.deepcopy(error), error)


def test_an_error_crosses_a_real_process_boundary(fresh_python: Callable[[str], str]) -> None:
    """An error of another process arrives with its names and its cause's text, though the cause does not pickle."""
    program = """
import base64, pickle
from posttrain.errors import RewardUnavailableError

class Local(Exception):
    def __reduce__(self):
        raise TypeError("does not pickle")

try:
    try:
        raise Local("the socket was closed")
    except Local as cause:
        error = RewardUnavailableError("the judge is gone", provider="judge", group_id="g", trajectory_id="t")
        error.because_of(cause)
        raise error from cause
except RewardUnavailableError as raised:
    print(base64.b64encode(pickle.dumps(raised)).decode())
"""
    back = pickle.loads(base64.b64decode(fresh_python(program)))  # noqa: S301  # the bytes are our own
    assert type(back) is RewardUnavailableError
    assert str(back) == "provider 'judge', group 'g', trajectory 't': the judge is gone"
    assert (back.cause_type, back.cause_text) == ("__main__.Local", "the socket was closed")


def test_a_cause_of_ours_is_kept_by_its_qualified_name() -> None:
    """Types outside the builtins carry their module; builtins go by their bare name."""
    error = RewardContractError("m")
    error.because_of(RewardConfigError("inner", provider="p"))
    assert (error.cause_type, error.cause_text) == ("posttrain.errors.RewardConfigError", "provider 'p': inner")
    error.because_of(KeyError("k"))
    assert (error.cause_type, error.cause_text) == ("KeyError", "'k'")


def test_a_cause_without_text_is_described() -> None:
    """A cause whose text can't be had does not hide the error that is being built."""
    error = RewardContractError("m")
    error.because_of(_Unprintable())
    assert error.cause_text == "<unprintable: RuntimeError>"


def test_the_text_of_an_exception_can_always_be_had() -> None:
    """It is what str gives, the names of an error of the tree included, or says why there is none."""
    assert text_of(ValueError("no digits")) == "no digits"
    assert text_of(KeyError("k")) == "'k'"
    assert text_of(RewardContractError("m", group_id="g")) == "group 'g': m"
    assert text_of(AssertionError()) == ""
    assert text_of(_Unprintable()) == "<unprintable: RuntimeError>"


def test_a_message_is_required() -> None:
    """An error without a message can't be made."""
    with pytest.raises(TypeError, match="message"):
        RewardContractError()  # type: ignore[call-arg]  # the mistake under test


class _Colour(enum.IntEnum):
    RED = 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "None"),
        (True, "True (bool)"),
        (1, "1 (int)"),
        (1.0, "1.0 (float)"),
        (-0.0, "-0.0 (float)"),
        ("1", "'1' (str)"),
        ("a\nb", r"'a\nb' (str)"),
        (b"x", "b'x' (bytes)"),
        (_Colour.RED, f"<_Colour.RED: 1> ({__name__}._Colour)"),
        (np.float64(0.5), "np.float64(0.5) (numpy.float64)"),
        # 10**5000 lies between 2**16609 and 2**16610, since 5000 / log10(2) = 16609.6.
        (10**5000, "an int of 16610 bits"),
        (-(10**5000), "an int of 16610 bits"),
        (_Unprintable(), f"<unprintable: RuntimeError> ({__name__}._Unprintable)"),
        ([10**5000], "<unprintable: ValueError> (list)"),
    ],
    ids=lambda part: part if isinstance(part, str) else type(part).__name__,
)
def test_a_described_value_shows_itself_and_its_type(value: object, expected: str) -> None:
    """Values that compare equal but differ in type read differently, and no value is beyond description."""
    assert describe(value) == expected


@pytest.mark.parametrize(
    "value",
    ["x" * 10**6, b"x" * 10**6, list(range(10**4)), 2**255, {"k" * 500: 1}],
    ids=lambda value: type(value).__name__,
)
def test_a_long_value_is_cut(value: object) -> None:
    """However long the value, at most 80 characters of it are shown, with its type."""
    shown = describe(value)
    assert shown.endswith(f" ({type(value).__name__})")
    assert len(shown) <= 80 + len(f" ({type(value).__name__})")


@given(json_values | st.binary(max_size=200) | st.sets(st.integers()) | st.floats())
def test_a_description_is_one_short_line(value: object) -> None:
    """Any plain value fits on a line that a UTF-8 log can take."""
    shown = describe(value)
    assert len(shown.splitlines()) == 1
    assert len(shown) < 120
    assert shown.encode()


def test_a_matrix_is_described_on_one_line() -> None:
    """A repr of several lines is folded into one."""
    assert len(describe(np.eye(2)).splitlines()) == 1


@pytest.mark.parametrize(
    ("count", "shown", "rest"), [(0, 0, None), (1, 1, None), (20, 20, None), (21, 20, 1), (500, 20, 480)]
)
def test_a_listing_counts_what_it_does_not_show(count: int, shown: int, rest: int | None) -> None:
    """Up to 20 offenders are shown, one a line and indented; the others are counted."""
    lines = listing([f"offender {index}" for index in range(count)]).splitlines()
    expected = [f"  offender {index}" for index in range(shown)]
    assert lines == (expected if rest is None else [*expected, f"  ... and {rest} more"])


def test_a_listing_takes_another_limit() -> None:
    """The limit is the caller's to choose."""
    assert listing(["a", "b", "c"], limit=2) == "  a\n  b\n  ... and 1 more"
