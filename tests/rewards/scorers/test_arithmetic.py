# SPDX-License-Identifier: Apache-2.0
"""`arithmetic` pays the first number behind the last mark, or the last number where there is no mark."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from posttrain.errors import RewardContractError
from posttrain.frozen import freeze


@pytest.mark.parametrize(
    ("reference", "completion", "expected"),
    [
        ("0.004", "0.012", 0.0),
        ("0.3", "0.30000000000000004", 1.0),
        ("9007199254740993", "9007199254740992", 0.0),
    ],
)
def test_tolerance_is_relative_and_never_for_integers(
    score: Callable[..., float], reference: str, completion: str, expected: float
) -> None:
    """Small decimals stay apart, a float's last bits don't matter, and integers are exact. Case arithmetic-02."""
    assert score("arithmetic", reference, completion) == expected


@pytest.mark.parametrize(
    ("reference", "completion", "expected"),
    [
        ("1234", "1,234", 1.0),
        ("1234", "12,34", 0.0),
        ("1.22", "1,22", 0.0),
        ("5", "inf", 0.0),
        ("5", "1e999", 0.0),
        ("5", "nan", 0.0),
    ],
)
def test_commas_group_three_digits_and_infinity_is_no_number(
    score: Callable[..., float], reference: str, completion: str, expected: float
) -> None:
    """A comma elsewhere makes no number, and nothing that isn't finite is one or raises. Case arithmetic-03."""
    assert score("arithmetic", reference, completion) == expected


# Each line: a completion, the one number that it answers with (None: none), and why.
ANSWERS = [
    ("5", "5", "a bare number"),
    ("There are 3 boxes of 4, so 12.", "12", "without a mark, the last number"),
    ("12 in all,\nas said above", "12", "on whatever line it is"),
    ("nothing", None, "no number at all"),
    ("", None, "nothing at all"),
    ("3 * 4 = 12", "12", "what follows the mark"),
    ("2 + 3 = 5 apples, 4 of them red", "5", "the first number behind it"),
    ("2 + 3 = 5\n5 + 1 = 6", "6", "the last mark counts"),
    ("x=5", "5", "without spaces"),
    ("x == 5", "5", "a double sign is a sign"),
    ("5 = x", None, "no number follows"),
    ("x = y", None, "nor here"),
    ("5 = five", None, "nor here, though one stands before"),
    ("= ", None, "nor here"),
    ("x = y, that is 5", "5", "the first number behind it, wherever"),
    ("#### 5\nor 6", "5", "the data set's mark"),
    ("####5", "5", "without a space"),
    ("3 is wrong\n####", None, "with nothing behind it"),
    ("The answer is 5.", "5", "the phrase"),
    ("Answer is: 5, not 6", "5", "with a colon, at the very beginning"),
    ("Answer is 5, as the answer isn't 6", "5", "also behind a phrase that goes on"),
    ("THE ANSWER IS **5**", "5", "in capitals, with bold marks"),
    ("**The answer is:** 5", "5", "with the bold marks around the phrase"),
    ("The answer is\n\n5 (not 6)", "5", "on a later line"),
    ("İİ The answer is 5, not 6", "5", "behind letters that change length in lower case"),
    ("The answer isn't 5", "5", "no mark: the last number of the text, such as it is"),
    ("The answer is 5. No, the answer isn't 6", "5", "a phrase that goes on is no mark and hides none"),
    ("The answer is 5 = 2 + 3", None, "behind the last mark stands a sum"),
    ("#### 4, so the answer is 5", "5", "whichever mark is last"),
    ("the answer is 4, 2 + 3 = 5", "5", "whichever mark is last"),
    ("= $5.00.", "5", "currency, zeros and a period"),
    ("= \\$5", "5", "escaped currency"),
    ("= 5%", "5", "per cent is notation"),
    ("= 5\\%", "5", "escaped too"),
    ("= £5", "5", "another currency"),
    ("= 5.", "5", "a period"),
    ("= .5", "0.5", "a decimal without its zero"),
    ("...5", "5", "dots are no decimal point"),
    ("= 5e-1", "0.5", "an exponent"),
    ("= 2.5E2", "250", "in capitals"),
    ("= 1/2", "0.5", "a fraction"),
    ("= -10/4", "-2.5", "with a sign"),
    ("= \\frac{1}{2}", "0.5", "in LaTeX"),
    ("= -\\dfrac{1}{2}", "-0.5", "in LaTeX with a sign"),
    ("= \\frac{x}{2}", None, "a denominator is no answer"),
    ("= 1/0", None, "nothing is divided by zero"),
    ("= 1 / 2", None, "an expression with spaces is not worked out"),
    ("= 1 1/2", None, "a mixed number is not its whole part"),
    ("= 1 ½", None, "nor with a sign for the half"),
    ("\\boxed{5}", "5", "in a box"),
    ("= $\\boxed{-5}$", "-5", "with a sign"),
    ("= -\\boxed{5}", "-5", "with the sign outside"),
    ("= (5)", "5", "in brackets"),
    ("= [5]", "5", "in square brackets"),
    ("= 5</answer>", "5", "before a tag"),
    ("= 5}$", "5", "before what closes"),
    ("= 45^\\circ", "45", "degrees are a unit"),
    ("= 5 km/h", "5", "a unit"),
    ("= 5km", "5", "a unit without a space"),
    ("= 5/hour", "5", "a rate"),
    ("= 5 million", "5", "a word is a unit"),
    ("= 20 m^2", "20", "an exponent of a unit is no number"),
    ("20 m^2", "20", "nor is it the last one"),
    ("5 x^{2}", "5", "nor in braces"),
    ("5 for x_{2}", "5", "an index is no number"),
    ("7 for x2, H2O and v1.5", "7", "nor is a digit in a word"),
    ("7 for x1,000", "7", "nor the last group of one"),
    ("= \\binom{n}{2}", None, "nor is the second argument of a command"),
    ("= √25", None, "nor is what a root is taken of"),
    ("= \\sqrt{25}", None, "nor in LaTeX"),
    ("= -5", "-5", "a sign"),
    ("= +5", "5", "a plus"),
    ("= \u22125", "-5", "a typographic minus"),
    ("= \u20135", "-5", "a dash that is typed for one"),
    ("= -$5", "-5", "before currency"),
    ("= $-5", "-5", "behind it"),
    ("= **-5**", "-5", "in bold"),
    ("= - 5", "-5", "right behind the mark a sign may stand apart"),
    ("= -\n5", "-5", "even on a line of its own"),
    ("it is -5", "-5", "a sign in running text"),
    ("it is - 5", None, "but apart it may be a dash"),
    ("- 5", None, "or a bullet"),
    ("* 5", "5", "a star makes no number negative"),
    ("= --5", None, "two signs may be a dash"),
    ("= ±5", None, "both signs are none"),
    ("= \\pm 5", None, "in LaTeX too"),
    ("x - 5", None, "an expression is not its last term"),
    ("x-5", None, "nor without spaces"),
    ("(x)-5", None, "nor behind a bracket"),
    ("= 5 ± 1", None, "nor is a measurement its middle"),
    ("7-5", None, "nor of numbers"),
    ("= 7 - 5", None, "nor its first"),
    ("= 7 -5", None, "however it is spaced"),
    ("= 7 x 5", None, "nor with a letter for the sign"),
    ("= 5 \\times 10^3", None, "nor is a power of ten its factor"),
    ("= 5 × 10^3", None, "in either spelling"),
    ("= 5^2", None, "a power is not its base"),
    ("= 5²", None, "nor with a superscript"),
    ("= 5 - that was easy", "5", "a dash before words is none"),
    ("= 5, 6", "5", "a list with spaces: its first"),
    ("= 5,6", None, "without them it may be a decimal comma"),
    ("= 5:30", None, "a time of day"),
    ("= 3.14.15", None, "two points"),
    ("= 0x10", None, "hexadecimal"),
    ("= 1_234", None, "underscores group nothing"),
    ("= 1'234", None, "nor do apostrophes"),
    ("= 1\u202f234", None, "nor do narrow spaces, and then it isn't 1 either"),
    ("= 1{,}234", "1234", "LaTeX's comma"),
    ("= 1,234,567.5", "1234567.5", "groups with decimals"),
    ("= 1,2345", None, "exactly three digits"),
    ("= 0,123", None, "a first group of 0 is a decimal comma"),
    ("= \u0665 or 5", "5", "digits are ASCII: other numerals are passed over"),
    ("= 5\u0665", None, "but not right behind one"),
    ("= 5\x00", "5", "a NUL is no digit"),
    ("= 5\ud800", "5", "nor is half a character"),
    ("= " + "9" * 640, "9" * 640, "as many digits as are read"),
    ("= " + "9" * 641, None, "one too many"),
    ("= 1e401", None, "an exponent too large"),
    ("= 1e-401", None, "or too small"),
]
NEAR_MISSES = ("0", "1", "2", "3", "4", "5", "-5", "6", "7", "10", "12", "16", "25", "45", "1234", "234", "0.5", "1.5")


@pytest.mark.parametrize(("completion", "paid", "why"), ANSWERS, ids=[answer[-24:] for answer, _, _ in ANSWERS])
def test_what_is_taken_for_the_answer(score: Callable[..., float], completion: str, paid: str | None, why: str) -> None:
    """Each completion pays the one number that it answers with, and none of those it could be taken for."""
    for reference in {*NEAR_MISSES, *([paid] if paid else [])}:
        assert score("arithmetic", reference, completion) == float(reference == paid), why


@pytest.mark.parametrize(
    ("reference", "completion", "expected"),
    [
        # 0.5 · 1e-9 = 5e-10 is the most that may be missing.
        (0.5, "0.5000000005", 1.0),
        (0.5, "0.50000000051", 0.0),
        (0.5, "0.4999999995", 1.0),
        (0.5, "0.49999999949", 0.0),
        (-0.5, "-0.5000000005", 1.0),
        (0.5, "-0.5", 0.0),
        # 3e-9 for a whole reference and an answer that isn't; and the other way round.
        (3, "3.000000003", 1.0),
        (3, "3.0000000031", 0.0),
        ("3.000000003", "3", 1.0),
        # Two whole values are exact, however they are written and however large.
        (3, "3.0", 1.0),
        ("3.0", "3", 1.0),
        (10**30, "1e30", 1.0),
        (10**30, str(10**30 + 1), 0.0),
        ("1e30", str(10**30 + 1), 0.0),
        # Nothing but zero is near zero.
        (0, "1e-300", 0.0),
        (0.0, "-0.0", 1.0),
        (1e-300, "0", 0.0),
        # No float stands between: these overflow or vanish as floats.
        ("1e400", "1e400", 1.0),
        ("1e400", "1e399", 0.0),
        ("1e-400", "1e-400", 1.0),
        ("1e-400", "0", 0.0),
        ("1/3", "0.3333333333", 1.0),
        ("1/3", "0.333333333", 1.0),
        ("1/3", "0.33333333", 0.0),
    ],
)
def test_how_near_is_near_enough(score: Callable[..., float], reference: Any, completion: str, expected: float) -> None:
    """1e-9 of the reference where either side is not whole, nothing otherwise; boundaries worked out by hand."""
    assert score("arithmetic", reference, completion) == expected


@pytest.mark.parametrize(
    "reference", [42, 42.0, "42", " 42.0\n", "$42", "4.2e1", "84/2", "+42", "42%", "**42**", "\\boxed{42}"]
)
def test_a_reference_is_a_number_or_the_text_of_one(score: Callable[..., float], reference: Any) -> None:
    """Numbers of JSON and their texts, in any notation, mean the same."""
    assert score("arithmetic", freeze(reference), "6 * 7 = 42") == 1.0
    assert score("arithmetic", freeze(reference), "6 * 7 = 43") == 0.0


@pytest.mark.parametrize(
    ("reference", "seen"),
    [
        (float("nan"), r"nan \(float\)"),
        (float("inf"), r"inf \(float\)"),
        (-float("inf"), r"-inf \(float\)"),
        ("nan", r"'nan' \(str\)"),
        ("inf", r"'inf' \(str\)"),
        ("1e999", r"'1e999' \(str\)"),
        (True, r"True \(bool\)"),
        ([5], r"\[5\] \(list\)"),
        ({"answer": 5}, r"\{'answer': 5\} \(dict\)"),
        ("abc", r"'abc' \(str\)"),
        ("", r"'' \(str\)"),
        (None, "None"),
        ("12,34", r"'12,34' \(str\)"),
        ("5 apples", r"'5 apples' \(str\)"),
        ("5 6", r"'5 6' \(str\)"),
        ("#### 5", r"'#### 5' \(str\)"),
        ("1/0", r"'1/0' \(str\)"),
        ("\u0665", r"'\u0665' \(str\)"),
        (10**700, "an int of 2326 bits"),
    ],
)
def test_a_reference_that_is_no_finite_number_is_a_data_fault(
    score: Callable[..., float], reference: Any, seen: str
) -> None:
    """The error shows what came and which forms are read."""
    with pytest.raises(RewardContractError, match=rf"arithmetic expects a reference .*, got {seen}: map the column"):
        score("arithmetic", reference, "5")


def test_one_letter_alone_changes_length_in_lower_case() -> None:
    """Marks are looked for in lower case, and offsets carried back: so only `İ` may grow, and nothing may vanish."""
    assert [chr(point) for point in range(sys.maxunicode + 1) if len(chr(point).lower()) != 1] == ["İ"]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("before", ["", "= "])
@pytest.mark.parametrize(
    "piece",
    [
        "9",
        "5 ",
        "- ",
        "-",
        "$",
        "$ ",
        "*",
        "_",
        " ",
        "\n",
        "x5 ",
        "5,555",
        "5\u00a0",
        "5 + ",
        "\\boxed{",
        "=",
        "answer isn",
    ],
)
def test_a_long_completion_is_no_hang(score: Callable[..., float], before: str, piece: str) -> None:
    """Half a million repetitions of what could make a reader go back and forth are read in passing."""
    assert score("arithmetic", 7, before + piece * (500_000 // len(piece)) + "x") == 0.0
