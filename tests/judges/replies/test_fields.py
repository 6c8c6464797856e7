# SPDX-License-Identifier: Apache-2.0
"""Exactly the declared keys, and values of exactly the declared kind."""

from __future__ import annotations

import math
from typing import Any

import pytest

from posttrain.judges.endpoint import JudgeReplyError
from posttrain.judges.replies import number_in, text_of_key, whole_number_in, with_exactly


def test_the_keys_in_any_order() -> None:
    """All of them and no other, in whatever order, are what is asked for."""
    assert with_exactly({"b": 1, "a": 0}, ("a", "b")) == {"a": 0, "b": 1}


def test_every_wrong_key_is_named() -> None:
    """Missing, null and superfluous ones together."""
    with pytest.raises(JudgeReplyError, match=r"missing: 'a' is missing; 'b' is null; 'z' \(str\) was not asked for"):
        with_exactly({"b": None, "z": 1}, ("a", "b"))


@pytest.mark.parametrize("value", [0, 1, 0.0, 1.0, 0.5, -0.0])
def test_a_number_on_the_scale(value: float) -> None:
    """Both ends belong to it; an int is a number; there is one zero."""
    assert repr(number_in("a", value, (0.0, 1.0))) == repr(abs(float(value)))


@pytest.mark.parametrize("value", [True, False, "0.5", "NaN", [0.5], {"a": 0.5}, None])
def test_what_is_no_number_is_refused(value: Any) -> None:
    """A bool or a text is none, even where it could be read as one."""
    with pytest.raises(JudgeReplyError, match="unparsable: 'a': expected a number from 0 to 1"):
        number_in("a", value, (0.0, 1.0))


@pytest.mark.parametrize("value", [1.5, -0.1, math.nan, math.inf, -math.inf, 10**400, 1.0000000000000002])
def test_a_number_off_the_scale_is_refused(value: float) -> None:
    """Nothing is clamped."""
    with pytest.raises(JudgeReplyError, match="off_scale: 'a': expected a number from 0 to 1"):
        number_in("a", value, (0.0, 1.0))


def test_whole_numbers() -> None:
    """2.0 is one, 2.5 is none."""
    assert whole_number_in("a", 2.0, (0.0, 4.0)) == 2.0
    with pytest.raises(JudgeReplyError, match=r"off_scale: 'a': expected a whole number, got 2.5"):
        whole_number_in("a", 2.5, (0.0, 4.0))


def test_text_is_text() -> None:
    """Anything else is refused."""
    assert text_of_key("a", "x") == "x"
    with pytest.raises(JudgeReplyError, match="unparsable: 'a': expected text, got 3"):
        text_of_key("a", 3)
