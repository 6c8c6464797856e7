# SPDX-License-Identifier: Apache-2.0
"""`gsm8k` and `arithmetic` over numbers in every notation: a value equals itself, and no other."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

LEADS = {"gsm8k": "Thus 3 + 4.\n#### ", "arithmetic": "Thus 3 + 4 = "}
MARKS = ["", "", "$", "\\$", "$ ", "**", "$**", "€", "__", "\\boxed{"]
SIGNS = ["-", "\u2212", "\u2013", "\uff0d"]
TAILS = ["", ".", "%", "$", "**", "}", " dollars", " km per hour.", ", I think", "</answer>", "\nSo 2 + 2 is 4."]

# A decimal as (digits, places): digits / 10^places. So few digits that two that differ do so by far more than 1e-9.
decimals = st.tuples(st.integers(-99_999, 99_999), st.integers(0, 3))
scorers = pytest.mark.parametrize("name", LEADS)


def _value(decimal: tuple[int, int]) -> Fraction:
    return Fraction(decimal[0], 10 ** decimal[1])


@st.composite
def _bodies(draw: st.DrawFn, digits: int, places: int) -> str:
    """The size of a decimal as text: plain, grouped, with zeros, with an exponent or as a fraction."""
    text = str(digits).rjust(places + 1, "0")
    whole, fraction = text[: len(text) - places], text[len(text) - places :]
    form = draw(st.sampled_from(["plain", "grouped", "exponent", "over", "frac"]))
    if form == "exponent":
        shift = draw(st.integers(0, 3))
        return f"{digits * 10**shift}{draw(st.sampled_from('eE'))}{-places - shift}"
    if form == "over":
        return f"{digits}/{10**places}"
    if form == "frac":
        return f"\\frac{{{digits}}}{{{10**places:,}}}"
    fraction += "0" * draw(st.integers(0, 3))
    whole = f"{int(whole):,}" if form == "grouped" else "0" * draw(st.integers(0, 2)) + whole
    return f"{whole}.{fraction}" if fraction else whole


@st.composite
def _written(draw: st.DrawFn, decimal: tuple[int, int]) -> str:
    """A decimal as an answer: its body with a sign, marks on both sides of it, and something behind."""
    digits, places = decimal
    sign = draw(st.sampled_from(SIGNS)) if digits < 0 else draw(st.sampled_from(["", "", "+"]))
    outer, inner = draw(st.sampled_from(MARKS)), draw(st.sampled_from(MARKS))
    return f"{outer}{sign}{inner}{draw(_bodies(abs(digits), places))}{draw(st.sampled_from(TAILS))}"


@scorers
@given(st.data(), decimals)
def test_a_value_in_any_notation_equals_itself(
    score: Callable[..., float], name: str, data: st.DataObject, decimal: tuple[int, int]
) -> None:
    """However it is written, it pays against a reference of the same value, as a text or as a number."""
    answer = LEADS[name] + data.draw(_written(decimal))
    digits, places = decimal
    assert score(name, f"{digits}/{10**places}", answer) == 1.0
    assert score(name, f"{digits}e-{places}", answer) == 1.0
    assert score(name, digits / 10**places, answer) == 1.0
    if _value(decimal).denominator == 1:
        assert score(name, int(_value(decimal)), answer) == 1.0


@scorers
@given(st.data(), decimals, decimals)
def test_a_value_in_any_notation_equals_no_other(
    score: Callable[..., float], name: str, data: st.DataObject, decimal: tuple[int, int], other: tuple[int, int]
) -> None:
    """It doesn't pay against another value, its opposite, its neighbours or its multiples by ten."""
    answer = LEADS[name] + data.draw(_written(decimal))
    value = _value(decimal)
    for wrong in {_value(other), -value, value + 1, value - Fraction(1, 1000), value * 10, value / 100}:
        if wrong != value:
            assert score(name, f"{wrong.numerator}/{wrong.denominator}", answer) == 0.0


@scorers
@given(st.data(), decimals, st.sampled_from("0123456789²½٣三"))
def test_a_numeral_behind_a_value_leaves_it_unpaid(
    score: Callable[..., float], name: str, data: st.DataObject, decimal: tuple[int, int], numeral: str
) -> None:
    """A numeral of any script right behind a value, with or without a sign between, makes it another or none."""
    digits, places = decimal
    body = data.draw(_bodies(abs(digits), places))
    between = data.draw(
        st.sampled_from(["", ",", ".", "/", ":", "^", "-", "+", "*", "×", "_", "'", " + ", " × ", " - "])
    )
    # These write the same value once more: 5 as 5.0 or 5/1, a zero behind decimals or behind an exponent of one digit.
    assume(not (numeral in "01" and between in {"", ".", "/"}))
    # Behind an operator that stands apart only a digit is a term: a superscript there says nothing.
    assume(numeral.isascii() or between.strip() == between)
    answer = f"{LEADS[name]}{'-' if digits < 0 else ''}{body}{between}{numeral}"
    assert score(name, f"{digits}/{10**places}", answer) == 0.0 or _value(decimal) == 0


@given(decimals, decimals)
def test_two_values_on_the_answer_line_are_no_answer(
    score: Callable[..., float], decimal: tuple[int, int], other: tuple[int, int]
) -> None:
    """`gsm8k` pays neither of two numbers on one line, but the first where the second stands on the next."""
    first, second = float(_value(decimal)), float(_value(other))
    for reference in (first, second):
        assert score("gsm8k", reference, f"#### {first} or {second}") == 0.0
    assert score("gsm8k", first, f"#### {first}\n{second}") == 1.0


@given(decimals, decimals, st.sampled_from([" = ", "\n#### ", " so the Answer IS: "]))
def test_a_mark_decides_which_number_answers(
    score: Callable[..., float], decimal: tuple[int, int], other: tuple[int, int], mark: str
) -> None:
    """`arithmetic` takes the first number behind the mark, and the last of the text where there is none."""
    first, second = _value(decimal), _value(other)
    assume(first != second)
    one, two = f"{float(first):.3f}", f"{float(second):.3f}"
    assert score("arithmetic", one, f"{two} and{mark}{one} then {two}") == 1.0
    assert score("arithmetic", two, f"{two} and{mark}{one} then {two}") == 0.0
    assert score("arithmetic", two, f"{two} and {one} then {two}") == 1.0
    assert score("arithmetic", one, f"{two} and {one} then {two}") == 0.0


alphabet = st.sampled_from(
    [*"0123456789.,/$*_-+eE\\{}% =^²½٣±×#\n", "####", "answer is", "\\frac{", "\\boxed{", "\u00a0"]
)
anything = st.text(st.characters(exclude_categories=())) | st.lists(alphabet, max_size=30).map("".join)


@scorers
@given(anything, st.booleans())
def test_any_text_gets_a_score(score: Callable[..., float], name: str, text: str, led: bool) -> None:
    """Whatever a model writes, lone surrogates and NULs included, the score is 0.0 or 1.0 and nothing is raised."""
    assert score(name, 5, LEADS[name] + text if led else text) in {0.0, 1.0}
