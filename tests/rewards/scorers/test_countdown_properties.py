# SPDX-License-Identifier: Apache-2.0
"""`countdown` against two independent readings of expressions, and against whatever a model may write."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

OPERATORS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": lambda left, right: left / right,
}
GLYPHS = {"+": "+", "-": "-−", "*": "*×", "/": "/÷"}
spaces = st.sampled_from(["", "", "", " ", "\n", "\u00a0 "])


@st.composite
def _expressions(draw: st.DrawFn, numbers: list[int]) -> tuple[str, Fraction]:
    """A fully bracketed expression over the numbers in their order, with its value."""
    if len(numbers) == 1:
        text, value = str(numbers[0]), Fraction(numbers[0])
    else:
        split = draw(st.integers(1, len(numbers) - 1))
        left, left_value = draw(_expressions(numbers[:split]))
        right, right_value = draw(_expressions(numbers[split:]))
        operator = draw(st.sampled_from("+-*/"))
        assume(operator != "/" or right_value)
        glyph = draw(st.sampled_from(GLYPHS[operator]))
        text = f"({left}{draw(spaces)}{glyph}{draw(spaces)}{right})"
        value = OPERATORS[operator](left_value, right_value)
    if draw(st.integers(0, 7)) == 0:
        text, value = f"{draw(st.sampled_from('-−'))}{draw(spaces)}{text}", -value
    return text, value


@st.composite
def _solved(draw: st.DrawFn) -> tuple[list[int], str, Fraction]:
    numbers = draw(st.lists(st.integers(0, 30), min_size=1, max_size=6))
    return (numbers, *draw(_expressions(numbers)))


def _score(score: Callable[..., float], numbers: list[int], target: int, answer: str) -> float:
    return score("countdown", {"numbers": numbers, "target": target}, f"<answer>{answer}</answer>")


@given(_solved(), st.randoms(use_true_random=False))
def test_a_valid_expression_pays_exactly_at_its_value(
    score: Callable[..., float], solved: tuple[list[int], str, Fraction], random: Any
) -> None:
    """It scores 1.0 when the target is its value, in whatever order the reference lists the numbers, else 0.0."""
    numbers, text, value = solved
    listed = random.sample(numbers, len(numbers))
    whole = value.numerator // value.denominator
    assert _score(score, listed, whole, text) == float(value == whole)
    assert _score(score, listed, whole + 1, text) == 0.0


@given(_solved(), st.data())
def test_a_mutated_expression_pays_nothing(
    score: Callable[..., float], solved: tuple[list[int], str, Fraction], data: st.DataObject
) -> None:
    """One foreign character, one more digit, one bracket less or another set of numbers: none of it pays."""
    numbers, text, value = solved
    assume(value.denominator == 1)
    target = value.numerator
    place = data.draw(st.integers(0, len(text)))
    foreign = data.draw(
        st.sampled_from(["=", ".", ",", "^", "%", "_", "e", "x", "[", "٣", "²", "\u200b", "\ud800", "\0"])
    )
    digit = data.draw(st.sampled_from("0123456789"))
    assert _score(score, numbers, target, f"{text[:place]}{foreign}{text[place:]}") == 0.0
    assert _score(score, numbers, target, f"{text[:place]}{digit}{text[place:]}") == 0.0
    assert _score(score, numbers, target, f"{text})") == 0.0
    assert _score(score, numbers, target, f"({text}") == 0.0
    assert _score(score, [*numbers, 1], target, text) == 0.0
    assert _score(score, [numbers[0] + 1, *numbers[1:]], target, text) == 0.0


def _python_value(text: str) -> Fraction | None:
    """The value by Python's own grammar, cut down to ours; None outside it."""
    try:
        return _walked(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ZeroDivisionError, LookupError):
        return None


def _walked(node: ast.expr) -> Fraction:
    names: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
    if isinstance(node, ast.BinOp):
        return OPERATORS[names[type(node.op)]](_walked(node.left), _walked(node.right))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_walked(node.operand)
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return Fraction(node.value)
    raise LookupError(type(node))


def test_every_short_text_scores_as_pythons_grammar_says(score: Callable[..., float]) -> None:
    """All texts of up to five characters over digits, operators and brackets: valid, using 1 and 2 once, or 0.0."""
    paid = 0
    for length in range(6):
        for text in map("".join, itertools.product("12+-*/()", repeat=length)):
            used = sorted(number for number in "".join(c if c.isdigit() else " " for c in text).split())
            value = _python_value(text) if used == ["1", "2"] else None
            right = value is not None and value.denominator == 1
            assert _score(score, [1, 2], value.numerator if value is not None else 3, text) == float(right), text
            paid += right
    # Of length 3: 1 and 2 in either order under + - *, and 2/1. More brackets and signs come with length 4 and 5.
    assert paid > 7


@given(
    st.text(st.characters(exclude_categories=())) | st.text(st.sampled_from("12+-*/() \n×÷−=.<>answer"), max_size=40),
    st.lists(st.integers(0, 3), min_size=1, max_size=4),
)
def test_any_text_in_the_tag_gets_a_score(score: Callable[..., float], text: str, numbers: list[int]) -> None:
    """Whatever a model writes, lone surrogates and NULs included, the score is 0.0 or 1.0 and nothing is raised."""
    assert _score(score, numbers, 3, text) in {0.0, 1.0}
    assert score("countdown", {"numbers": numbers, "target": 3}, text) in {0.0, 1.0}
