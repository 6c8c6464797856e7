# SPDX-License-Identifier: Apache-2.0
"""`countdown` pays an expression over exactly the given numbers that reaches the target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from posttrain.errors import RewardContractError


def _task(*numbers: int, target: int) -> dict[str, Any]:
    return {"numbers": list(numbers), "target": target}


def _tagged(answer: str) -> str:
    return f"<answer>{answer}</answer>"


@pytest.mark.parametrize("answer", ["(100*(3*3))+(50+6/3)", "(100*(3+6))+50+2"])
def test_the_right_value_from_the_wrong_numbers_pays_nothing(score: Callable[..., float], answer: str) -> None:
    """Both reach 952, one with the single 3 three times, the other with a 2 that isn't there. Case countdown-02."""
    assert score("countdown", _task(25, 50, 75, 100, 3, 6, target=952), _tagged(answer)) == 0.0


def test_model_text_is_never_run(score: Callable[..., float], capsys: pytest.CaptureFixture[str]) -> None:
    """Code in an answer does nothing, and leaves the grader as it was for the next answer. Case countdown-04."""
    task = _task(3, 4, target=7)
    assert score("countdown", task, _tagged("__import__('builtins').print('pwned') or 7")) == 0.0
    assert score("countdown", task, _tagged("().__class__.__mro__")) == 0.0
    assert score("countdown", task, _tagged("3*4")) == 0.0
    assert score("countdown", task, _tagged("3+4")) == 1.0
    assert capsys.readouterr().out == ""


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    ("numbers", "answer"),
    [
        pytest.param((9, 9, 9), "9**9**9", id="stacked powers"),
        pytest.param((9, 9, 9999), "((9**9)**9999)", id="bracketed powers"),
        pytest.param((1,), "(" * 20000 + "1" + ")" * 20000, id="deep nesting"),
        pytest.param((1,), "1*" * 20000 + "1", id="many factors"),
        pytest.param((1,), "-" * 20000 + "1", id="many signs"),
        pytest.param((1,), "1" * 1_000_000, id="a million digits"),
        pytest.param((1,), " " * 1_000_000 + "x", id="a million spaces"),
    ],
)
def test_no_answer_costs_much(score: Callable[..., float], numbers: tuple[int, ...], answer: str) -> None:
    """Work is capped by the count of numbers before anything is evaluated. Case countdown-05, and its neighbours."""
    assert score("countdown", _task(*numbers, target=1), _tagged(answer)) == 0.0


@pytest.mark.parametrize(
    ("numbers", "target", "answer", "expected"),
    [
        ((3, 4, 5), 17, "3×4+5", 1.0),
        ((8, 2, 1), 3, "8÷2−1", 1.0),
        ((44, 19, 35), 98, "44+19+35 = 98", 0.0),
        ((44, 19, 35), 98, "44+19+35 = 97", 0.0),
        ((44, 19, 35), 98, "98 = 98", 0.0),
    ],
)
def test_glyphs_are_notation_and_equations_are_not_expressions(
    score: Callable[..., float], numbers: tuple[int, ...], target: int, answer: str, expected: float
) -> None:
    """The three typographic operators are folded; an equals sign is refused, true or not. Case countdown-06."""
    assert score("countdown", _task(*numbers, target=target), _tagged(answer)) == expected


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    ("completion", "expected"),
    [
        ("<think>try</think>\n<answer>\n(44+19)+35\n</answer>\n", 1.0),
        ("<answer>44-19</answer> no, wait <answer>44+19+35</answer>", 1.0),
        ("<answer>44+19+35</answer> or <answer>1+1</answer>", 0.0),
        ("<answer>44+19+35", 0.0),
        ("<answer>44+19</answer>\n" * 5000 + "<answer>44+", 0.0),
    ],
)
def test_the_last_closed_tag_is_the_answer(score: Callable[..., float], completion: str, expected: float) -> None:
    """Text around tags is free, earlier tags are drafts, and an open tag is no answer. Case countdown-07."""
    assert score("countdown", _task(44, 19, 35, target=98), completion) == expected


@pytest.mark.parametrize(
    ("completion", "expected"),
    [
        pytest.param("<answer>1+2</answer> then <answer>9", 1.0, id="an open tag behind it takes nothing away"),
        pytest.param("<answer>9 <answer>1+2</answer>", 1.0, id="an open tag before it neither"),
        pytest.param("<answer>1+2</answer></answer>", 1.0, id="a stray closing tag closes nothing"),
        pytest.param("</answer><answer>1+2</answer>", 1.0, id="nor does one in front"),
        pytest.param("</answer>1+2<answer>", 0.0, id="closed before it opened"),
        pytest.param("<Answer>1+2</Answer>", 0.0, id="the tag is spelt in lower case"),
        pytest.param("<answer >1+2</answer>", 0.0, id="and without a space"),
        pytest.param("<answer>1+2</Answer>", 0.0, id="the closing one too"),
        pytest.param("1+2", 0.0, id="no tag"),
        pytest.param("", 0.0, id="nothing"),
        pytest.param("<answer></answer>", 0.0, id="an empty tag"),
        pytest.param("<answer> \n</answer>", 0.0, id="a blank tag"),
        pytest.param("<answer>1+2<answer></answer>", 0.0, id="the last opened tag is empty"),
    ],
)
def test_tags_that_are_open_stray_or_misspelt(score: Callable[..., float], completion: str, expected: float) -> None:
    """A tag is opened and closed as `<answer>` and `</answer>`, and the last opening that is closed counts."""
    assert score("countdown", _task(1, 2, target=3), completion) == expected


# Each line: the numbers, an answer over them, its value by hand.
VALUES = [
    ((2, 3, 4), "2+3*4", 14),  # the product binds tighter
    ((2, 3, 4), "(2+3)*4", 20),
    ((9, 3, 2), "9-3-2", 4),  # from the left
    ((9, 3, 2), "9-(3-2)", 8),
    ((8, 4, 2), "8/4/2", 1),  # from the left
    ((8, 4, 2), "8/(4/2)", 4),
    ((8, 4, 2), "8/4*2", 4),
    ((1, 3, 3), "1/3*3", 1),  # exact: no third is rounded
    ((1, 3, 8, 8), "8/(3-8/3)-1+0", None),  # uses a 3 too many, and a 0
    ((3, 3, 8, 8), "8/(3-8/3)", 24),  # 8 / (1/3)
    ((5,), "5", 5),
    ((5,), "-5", -5),
    ((5,), "--5", 5),
    ((5,), "(5)", 5),
    ((5,), "((5))", 5),  # more brackets than needed are fine
    ((5, 3), "5--3", 8),
    ((5, 3), "5*-3", -15),
    ((5, 3), "-5+3", -2),
    ((5, 3), "-(5-3)", -2),
    ((4, 2), "-4/-2", 2),
    ((0, 7), "0*7", 0),
    ((0, 7), "0/7", 0),
    ((7, 7), "7-7", 0),
    ((10, 2), " 10\t-\n\u00a02 ", 8),  # any whitespace between tokens
    ((12, 1, 2), "12+1+2", 15),
    ((6, 6, 6), "6*6/6", 6),
    ((999999999999999999, 1), "999999999999999999+1", 10**18),  # the largest number that a reference may have
]


@pytest.mark.parametrize(("numbers", "answer", "value"), VALUES)
def test_expressions_have_their_value_by_hand(
    score: Callable[..., float], numbers: tuple[int, ...], answer: str, value: int | None
) -> None:
    """An expression pays at its own value, and at no other near it."""
    for target in range((value or 0) - 2, (value or 0) + 3):
        assert score("countdown", _task(*numbers, target=target), _tagged(answer)) == float(target == value)


@pytest.mark.parametrize(
    ("numbers", "target", "answer"),
    [
        pytest.param((7, 0), 0, "7/0", id="division by zero"),
        pytest.param((7, 3, 3), 0, "7/(3-3)", id="division by a zero that is computed"),
        pytest.param((0, 0), 0, "0/0", id="zero by zero"),
        pytest.param((7, 2), 3, "7//2", id="floor division"),
        pytest.param((7, 2), 49, "7**2", id="power"),
        pytest.param((7, 2), 49, "7^2", id="power by caret"),
        pytest.param((7, 2), 1, "7%2", id="remainder"),
        pytest.param((7, 2), 9, "+7+2", id="unary plus"),
        pytest.param((7, 2), 9, "7++2", id="unary plus on the right"),
        pytest.param((7, 2), 9, "7.0+2", id="decimals"),
        pytest.param((7, 2), 9, "07+2", id="a leading zero"),
        pytest.param((0, 2), 2, "00+2", id="two zeros for one"),
        pytest.param((7, 2), 9, "7+2.", id="a full stop"),
        pytest.param((7, 2), 9, "$7+2$", id="dollar signs"),
        pytest.param((7, 2), 9, "`7+2`", id="code marks"),
        pytest.param((7, 2), 9, r"\boxed{7+2}", id="a box"),
        pytest.param((7, 2), 14, "7(2)", id="multiplication without a sign"),
        pytest.param((7, 2), 14, "(7)(2)", id="the same by brackets"),
        pytest.param((7, 2), 14, "7 2", id="two numbers side by side"),
        pytest.param((72,), 72, "7 2", id="a number split by a space"),
        pytest.param((7, 2), 14, "7x2", id="a letter for the sign"),
        pytest.param((7, 2), 14, "7·2", id="a dot for the sign"),
        pytest.param((7, 2), 5, "7–2", id="an en dash"),
        pytest.param((7, 2), 9, "7+2 apples", id="words"),
        pytest.param((7, 2), 9, "7,+2", id="a comma"),
        pytest.param((7, 2), 9, "(7+2", id="a bracket left open"),
        pytest.param((7, 2), 9, "7+2)", id="a bracket too many"),
        pytest.param((7, 2), 9, ")7+2(", id="brackets the wrong way round"),
        pytest.param((7, 2), 9, "7+2()", id="empty brackets"),
        pytest.param((7, 2), 9, "[7+2]", id="square brackets"),
        pytest.param((7, 2), 9, "7+2+", id="an operator at the end"),
        pytest.param((7, 2), 9, "7+*2", id="two operators"),
        pytest.param((7, 2), 9, "７+2", id="a full-width digit"),
        pytest.param((7, 2), 9, "7+٢", id="an Arabic digit"),
        pytest.param((7, 2), 9, "7+²", id="a superscript"),
        pytest.param((7, 2), 9, "7\u200b+2", id="an invisible character"),
        pytest.param((7, 2), 9, "7+2\x00", id="a NUL"),
        pytest.param((7, 2), 9, "7+2\ud800", id="half a character"),
        pytest.param((7, 2), 7, "7", id="a number left out"),
        pytest.param((7, 2), 16, "7+7+2", id="a number twice"),
        pytest.param((7, 7, 2), 9, "7+2", id="one of two equal numbers left out"),
        pytest.param((7, 2), 9, "9", id="the target itself"),
        pytest.param((7, 2), 9, "7+2+0", id="a zero that isn't there"),
        pytest.param((7, 2), 3, "7/2", id="a quotient near the target"),
    ],
)
def test_what_is_not_in_the_grammar_pays_nothing(
    score: Callable[..., float], numbers: tuple[int, ...], target: int, answer: str
) -> None:
    """Each of these would reach its target under some reading, and none is an expression over the numbers."""
    assert score("countdown", _task(*numbers, target=target), _tagged(answer)) == 0.0


@pytest.mark.parametrize(
    ("reference", "fault"),
    [
        (None, r"got None$"),
        ([1, 2], r"got \[1, 2\] \(list\)$"),
        ("1 2", r"got '1 2' \(str\)$"),
        ({}, r"numbers: expected a non-empty list, got None; target: expected a whole number, got None$"),
        ({"numbers": [], "target": 1}, r"numbers: expected a non-empty list, got \[\]"),
        ({"numbers": "12", "target": 1}, r"numbers: expected a non-empty list, got '12' \(str\)"),
        ({"numbers": {"1": 1}, "target": 1}, r"numbers: expected a non-empty list, got \{'1': 1\} \(dict\)"),
        ({"numbers": [1], "target": True}, r"target: expected a whole number, got True \(bool\)"),
        ({"numbers": [1], "target": 1.0}, r"target: expected a whole number, got 1.0 \(float\)"),
        ({"numbers": [1], "target": "1"}, r"target: expected a whole number, got '1' \(str\)"),
        ({"numbers": [1, True, 2.0], "target": 1}, r"numbers\[1\]: .* True \(bool\); numbers\[2\]: .* 2.0 \(float\)$"),
        ({"numbers": [1, "2"], "target": None}, r"numbers\[1\]: .* '2' \(str\); target: .* None$"),
        ({"numbers": [-1], "target": 1}, r"numbers\[0\]: expected a whole number from 0 to 9{18}, got -1 \(int\)"),
        (
            {"numbers": [10**18], "target": 1},
            r"numbers\[0\]: expected a whole number from 0 to 9{18}, got 10{18} \(int\)",
        ),
        ({"numbers": [10**5000], "target": 1}, r"numbers\[0\]: .* got an int of 16610 bits"),
        ({"numbers": [1] * 100_000, "target": 1}, r"numbers: expected at most 100, got 100000$"),
    ],
)
def test_a_malformed_reference_is_a_data_fault(score: Callable[..., float], reference: Any, fault: str) -> None:
    """The error says what is wrong with the row, everything at once; a well-formed answer changes nothing."""
    with pytest.raises(RewardContractError, match=rf"countdown expects a reference .*{fault}"):
        score("countdown", reference, _tagged("1"))


def test_what_else_a_reference_holds_is_left_alone(score: Callable[..., float]) -> None:
    """Provenance may live beside the two keys, and a frozen list of numbers is a tuple."""
    assert score("countdown", {"numbers": (1, 2), "target": 3, "source": "row 7"}, _tagged("2+1")) == 1.0


def test_a_hundred_numbers_fully_bracketed_are_within_bounds(score: Callable[..., float]) -> None:
    """The cap on tokens leaves room for two pairs of brackets and a minus around all there is in the longest task."""
    expression = "(-(1))"
    for _ in range(99):
        expression = f"(-({expression}+(-(1))))"
    # From the inside: -1, then -(-1 - 1) = 2, then -(2 - 1) = -1, and so on: 99 steps later, 2.
    assert score("countdown", _task(*[1] * 100, target=2), _tagged(expression)) == 1.0


def test_a_token_more_than_the_cap_is_refused(score: Callable[..., float]) -> None:
    """One number has room for twelve tokens, whatever whitespace is around them, and not for thirteen."""
    assert score("countdown", _task(1, target=-1), _tagged(" -(((((1))))) \n")) == 1.0
    assert score("countdown", _task(1, target=1), _tagged("((((((1))))))")) == 0.0
    assert score("countdown", _task(1, target=1), _tagged("--(((((1)))))")) == 0.0


@pytest.mark.timeout(10)
def test_a_hundred_large_numbers_are_no_hang(score: Callable[..., float]) -> None:
    """Even the longest exact fractions that a reference allows stay small: 1/a + 1/b + ... over 18-digit numbers."""
    numbers = [10**18 - 1 - 2 * index for index in range(100)]
    pairs = "+".join(f"{over}/{under}" for over, under in zip(numbers[::2], numbers[1::2], strict=True))
    assert score("countdown", _task(*numbers, target=50), _tagged(pairs)) == 0.0
    assert score("countdown", _task(*numbers, target=0), _tagged("*".join(map(str, numbers)))) == 0.0
