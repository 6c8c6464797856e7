# SPDX-License-Identifier: Apache-2.0
"""How a single number is read, apart from where it stands."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.rewards.scorers.numbers_in_text import folded, is_doubtful, number_at, number_of


@pytest.mark.parametrize(
    ("text", "value", "rest"),
    [
        ("5", 5, ""),
        ("5.0", 5, ""),
        ("5.", 5, "."),
        ("1,234.50 dollars", Fraction(2469, 2), " dollars"),
        ("12,34", 12, ",34"),
        ("1234,567", 1234, ",567"),
        ("1,2345", 1234, "5"),
        ("-$1,000", -1000, ""),
        ("$ -7", -7, ""),
        ("3/6", Fraction(1, 2), ""),
        ("6/3", 2, ""),
        ("3/", 3, "/"),
        ("1/2.5", Fraction(1, 2), ".5"),
        ("\\tfrac{-1}{2}", None, None),
        ("1e", 1, "e"),
        ("1e3x", 1000, "x"),
        ("1e-2", Fraction(1, 100), ""),
        ("5\u0665", 5, "\u0665"),
        ("\u0665", None, None),
        ("", None, None),
        ("x", None, None),
        (".", None, None),
        ("-", None, None),
        ("- 5", None, None),
        ("--5", None, None),
        ("$$$$$$$$5", 5, ""),
        ("$$$$$$$$-$$$$$$$$5", -5, ""),
        ("$$$$$$$$$5", 5, ""),
        ("$" * 17 + "5", None, None),
    ],
)
def test_a_number_and_what_it_leaves(text: str, value: Any, rest: str | None) -> None:
    """The longest number at the front is read exactly, whole values as ints; the rest is for the caller to judge."""
    found = number_at(text)
    if value is None:
        assert found is None
    else:
        assert found is not None
        assert found[0] == value
        assert type(found[0]) is type(value)
        assert text[found[1] :] == rest


@given(st.from_regex(r"-?[0-9]{1,20}(\.[0-9]{1,20})?([eE][-+]?[0-9]{1,2})?", fullmatch=True))
def test_decimals_have_the_value_that_fractions_gives_them(text: str) -> None:
    """Plain decimals and exponents agree with the standard library's exact reading of the same text."""
    found = number_at(text)
    assert found == (Fraction(text), len(text))
    assert number_of(text) == Fraction(text)


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(10**600), 10**600))
def test_every_float_and_integer_of_json_can_be_a_reference(real: float, whole: int) -> None:
    """A float reads as its shortest decimal form, so it converts back to itself; an int is itself."""
    value = number_of(real)
    assert value is not None
    assert float(value) == real
    assert number_of(whole) == whole
    assert number_of(str(whole)) == whole


@pytest.mark.parametrize(
    ("within", "beyond"),
    [
        ("9" * 640, "9" * 641),
        ("0" * 639 + "1", "0" * 640 + "1"),
        ("1" + ",000" * 213, "1" + ",000" * 214),
        ("5." + "3" * 639, "5." + "3" * 640),
        ("." + "3" * 640, "." + "3" * 641),
        ("9" * 640 + "/1", "9" * 641 + "/1"),
        ("1/" + "9" * 640, "1/" + "9" * 641),
        ("1e400", "1e401"),
        ("1e-400", "1e-401"),
        ("1e" + "0" * 640, "1e" + "0" * 641),
    ],
)
def test_length_and_exponent_are_bounded(within: str, beyond: str) -> None:
    """The longest number is read whole, and one that is a digit or a power longer is not read at all."""
    found = number_at(within)
    assert found is not None
    assert found[1] == len(within)
    assert number_at(beyond) is None


def test_an_integer_as_long_as_the_longest_text_is_read_and_a_longer_one_is_not() -> None:
    """An int of more than 640 digits could never be matched by a text, so it is no reference either."""
    longest = 10**640 - 1
    assert number_of(longest) == number_of("9" * 640) == longest
    assert number_of(-longest) == number_of("-" + "9" * 640) == -longest
    assert number_of(longest + 1) is None
    assert number_of(-longest - 1) is None


@pytest.mark.parametrize(
    "rest", [",34", "²", "½", "\u0665", "三", " 6", "+x", "-x", " - x", "^n", "=", "±", "x2", "(2)"]
)
def test_numerals_and_operations_behind_a_number_are_doubt(rest: str) -> None:
    """A numeral of any script, or a sign of arithmetic, may change the value."""
    assert is_doubtful(rest)


def test_folding_touches_minus_signs_and_latex_commas_alone() -> None:
    """Hyphens, minus signs and the en dash become a minus, the two LaTeX commas a comma, everything else stays."""
    assert folded("−1 ﹣2 －3 –4 ‐5 ‑6") == "-1 -2 -3 -4 -5 -6"
    assert folded("1{,}234 1,\\!234") == "1,234 1,234"
    assert folded("— ⁻ ~ × 1,234 é") == "— ⁻ ~ × 1,234 é"


@given(st.text(st.sampled_from("0123456789.,/$*_-+eE\\{}boxedfrac% =^²½٣ \u00a0")) | st.text())
def test_any_text_is_read_or_not_but_never_raises(text: str) -> None:
    """Reading ends inside the text, and what is no reference is None."""
    found = number_at(folded(text))
    assert found is None or 0 < found[1] <= len(folded(text))
    assert number_of(text) is None or number_at(folded(text).strip()) is not None
