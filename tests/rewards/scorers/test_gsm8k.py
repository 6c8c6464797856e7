# SPDX-License-Identifier: Apache-2.0
"""`gsm8k` pays the number behind the last marker, and no match that is in doubt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from posttrain.errors import RewardContractError
from posttrain.frozen import freeze


@pytest.mark.parametrize(
    ("completion", "expected"),
    [
        ("#### -10", 1.0),
        ("#### 10", 0.0),
        ("#### \u221210", 1.0),
        ("####\u00a0-10", 1.0),
        ("#### -$10", 1.0),
        ("#### +10", 0.0),
    ],
)
def test_the_sign_is_kept(score: Callable[..., float], completion: str, expected: float) -> None:
    """A negative answer can be reached, in any spelling of its minus, and the wrong sign is wrong. Case gsm8k-02."""
    assert score("gsm8k", "Mean of the three readings.\n#### -10", completion) == expected


def test_the_marker_counts_wherever_it_stands(score: Callable[..., float]) -> None:
    """Prose behind the answer, of any length, takes nothing away. Case gsm8k-03."""
    completion = "2 + 40 = 42\n#### 42\n" + "The steps above agree with this. " * 40
    assert score("gsm8k", "#### 42", completion) == 1.0


@pytest.mark.parametrize(
    ("completion", "expected"),
    [
        ("#### $29.00", 1.0),
        ("#### 29.", 1.0),
        ("#### **29**", 1.0),
        ("It came to \\$7 twice plus tip.\n#### \\$29", 1.0),
        ("#### 29.0", 1.0),
        ("#### 29 dollars", 1.0),
        ("#### 29.01", 0.0),
    ],
)
def test_typography_is_no_difference(score: Callable[..., float], completion: str, expected: float) -> None:
    """Currency, zeros, a period, bold marks and a unit are notation; a cent is a difference. Case gsm8k-04."""
    assert score("gsm8k", "#### 29", completion) == expected


@pytest.mark.parametrize(
    ("reference", "completion", "expected"),
    [
        ("#### 1", "#### 1/2", 0.0),
        ("#### 34", "#### 34/2", 0.0),
        ("#### 17", "#### 34/2", 1.0),
        ("#### 7", "#### 7/14", 0.0),
        ("#### 1/2", "#### 0.5", 1.0),
        ("#### 0.5", "#### 7/14", 1.0),
        ("#### 1", "#### 1 / 2", 0.0),
        ("#### 1", "#### 1 1/2", 0.0),
        ("#### 1", "#### 1½", 0.0),
        ("#### 1", "#### 1 ½", 0.0),
        ("#### 1", "#### 1/2/1", 0.0),
        ("#### 1", "#### 1/0", 0.0),
        ("#### 0", "#### 0/0", 0.0),
        ("#### 1", "#### 1.5/2", 0.0),
        ("#### 3", "#### 3/-1", 0.0),
        ("#### 5", "#### 5/hour", 1.0),
        ("#### 0.5", "#### \\frac{1}{2}", 1.0),
        ("#### -0.5", "#### $-\\frac{1}{2}$", 1.0),
        ("#### 1", "#### \\frac{1}{x}", 0.0),
    ],
)
def test_a_fraction_is_read_whole(
    score: Callable[..., float], reference: str, completion: str, expected: float
) -> None:
    """A fraction is one rational number, or no number; its numerator alone never pays. Case gsm8k-05."""
    assert score("gsm8k", reference, completion) == expected


@pytest.mark.timeout(10)
@pytest.mark.parametrize("completion", ["4/12 = 0." + "3" * 100_000, "", "8"])
def test_without_the_marker_there_is_no_answer(score: Callable[..., float], completion: str) -> None:
    """Runaway digits, nothing at all and the bare right number score 0.0, and nothing is raised. Case gsm8k-08."""
    assert score("gsm8k", "#### 8", completion) == 0.0


# Each line: what the completion ends in, the one reference that it pays (None: none), and why.
ANSWERS = [
    ("#### 18", "18", "the form of the data set"),
    ("####18", "18", "no space is needed"),
    ("####\t 18 \r", "18", "any space will do"),
    ("####\u00a0\u202f18", "18", "no-break spaces are spaces"),
    ("#####18", "18", "what follows the last four number signs is 18, whatever stands before them"),
    ("#### 17\n#### 18", "18", "the last marker counts"),
    ("#### 18\n#### ", None, "nothing follows the last marker"),
    ("#### 18 ####", None, "nor here"),
    ("#### 18\n#### Notes", None, "a heading behind the answer hides it: strict"),
    ("### 18", None, "three signs are no marker"),
    ("####\n18", "18", "the marker's line is blank, so the next one answers"),
    ("####\n\n  **18**.\n\nAll 3 agree.", "18", "the next line that isn't blank, and later lines are prose"),
    ("####\n18 apples", None, "below the marker the number stands alone, since a line of text may begin with one"),
    ("####\n18. Add the rest", None, "for example a list"),
    ("#### 18\n17", "18", "the answer is on the marker's line"),
    ("#### 18\r\n17", "18", "also with the other line ends"),
    ("#### 18 or maybe 19", None, "two numbers are no answer"),
    ("#### 18 apples and 3 pears", None, "nor are two amounts"),
    ("#### 18 (3 * 6)", None, "nor an amount with its sum: it may be the other"),
    ("#### 18 = 3 * 6", None, "an equation has two sides"),
    ("#### 12 34", None, "a space groups no digits here: 12 or 1234?"),
    ("#### 1 234", None, "nor does it in groups of three"),
    ("#### 1\u202f234", None, "nor does a narrow space"),
    ("#### 1,23", None, "a comma groups three digits: 1.23 or 123?"),
    ("#### 1,2345", None, "exactly three"),
    ("#### 0,123", None, "a group of its own begins with no zero: this is a decimal comma"),
    ("#### 1234,567", None, "and the first group has at most three"),
    ("#### 1,234", "1234", "groups of three are a number"),
    ("#### 1,234,567.50", "1234567.5", "with decimals too"),
    ("#### 1{,}234", "1234", "the comma as LaTeX writes it"),
    ("#### 1,\\!234", "1234", "and its other way"),
    ("#### 1.234,5", None, "points that group are not read"),
    ("#### 1'234", None, "nor apostrophes"),
    ("#### 1_234", None, "nor underscores"),
    ("#### 3.14.15", None, "two points make no number"),
    ("#### 10:30", None, "a time of day is not 10"),
    ("#### 5-7", None, "a range is not 5"),
    ("#### 5\u20137", None, "nor with a dash"),
    ("#### 5 to 7", None, "nor in words"),
    ("#### 5 ± 1", None, "nor a tolerance"),
    ("#### ±5", None, "both signs are none"),
    ("#### 10+John's age", None, "an expression is not its first term"),
    ("#### 10 - x", None, "nor with a minus"),
    ("#### 10-year", None, "a hyphen right behind a number may be a minus"),
    ("#### 10 miles-per-hour", "10", "but not inside a word"),
    ("#### 5^2", None, "a power is not its base"),
    ("#### 5²", None, "nor with a superscript"),
    ("#### 5 × 10^3", None, "nor a power of ten its factor"),
    ("#### 2*3", None, "nor a product"),
    ("#### 45^\\circ", "45", "degrees are a unit"),
    ("#### 20 m²", "20", "so are square metres"),
    ("#### 20 square feet", "20", "and square feet"),
    ("#### 20 ft^3", "20", "and cubic feet"),
    ("#### 20m2", "20", "without the caret, without a space"),
    ("#### 20 m2 3", None, "a further number is one all the same"),
    ("#### 20 room3", None, "only units of length have powers"),
    ("#### 20 m23", None, "and only the second and the third"),
    ("#### 1e3", "1000", "an exponent is read"),
    ("#### 1.5E+3", "1500", "in either case, with its sign"),
    ("#### 25e-1", "2.5", "downwards too"),
    ("#### 1e400", "1e400", "up to 400"),
    ("#### 1e401", None, "and no further"),
    ("#### 1e999999999", None, "least of all so far"),
    ("#### 1e-999999999", None, "or so far down"),
    ("#### 0e999999999", None, "a zero is no way round"),
    ("#### 1e3.5", None, "an exponent is whole"),
    ("#### 0x10", None, "hexadecimal is neither 0 nor 16"),
    ("#### \u0663", None, "digits are ASCII: this is an Arabic three"),
    ("#### 3\u0663", None, "which is a numeral all the same"),
    ("#### \uff13", None, "nor a full-width three"),
    ("#### 三", None, "nor a Chinese one"),
    ("#### ³", None, "nor a superscript"),
    ("#### three", None, "nor a word"),
    ("#### -10", "-10", "a sign"),
    ("#### \u221210", "-10", "a typographic one"),
    ("#### \u201310", "-10", "a dash that is typed for one"),
    ("#### \u201410", None, "an em dash is punctuation: 10 or -10?"),
    ("#### $-10", "-10", "the sign behind the currency"),
    ("#### -$10", "-10", "or before it"),
    ("#### **-10**", "-10", "inside bold marks"),
    ("#### -**10**", "-10", "or outside"),
    ("#### - 10", None, "a sign that stands apart may be a bullet"),
    ("#### --10", None, "two signs may be a dash"),
    ("#### +10", "10", "a plus is a sign too"),
    ("#### -0", "0", "zero has none"),
    ("#### (5)", None, "to an accountant this is -5"),
    ("#### [5]", None, "other brackets say as little"),
    ("#### .5", "0.5", "a decimal without its zero"),
    ("#### ..5", None, "dots are no decimal point"),
    ("#### 007", "7", "leading zeros are no difference"),
    ("#### 7.", "7", "a period ends the sentence"),
    ("#### 7...", "7", "or three of them"),
    ("#### 7!", "7", "or an exclamation"),
    ("#### 7, I think", "7", "or a comma begins a remark"),
    ("#### 25%", "25", "per cent is notation: 25, not 0.25"),
    ("#### $ 25", "25", "a space behind the currency"),
    ("#### 25$", "25", "the currency behind"),
    ("#### €25", "25", "another currency"),
    ("#### $25$", "25", "LaTeX's dollars look the same"),
    ("#### __25__", "25", "the other bold marks"),
    ("**#### 25**", "25", "bold around the whole"),
    ("#### \\boxed{25}", "25", "a box is decoration"),
    ("#### $\\boxed{25}$", "25", "so is a box in dollars"),
    ("#### 25</answer>", "25", "a tag that closes behind it"),
    ("#### The answer is 25", None, "words come behind the number, not before"),
    ("#### x = 25", None, "nor an unknown"),
    ("#### 3 million", "3", "a word behind the number is its unit, as the question asked for it"),
    ("#### " + "9" * 640, "9" * 640, "as many digits as are read"),
    ("#### " + "9" * 641, None, "one too many"),
    ("#### 0." + "3" * 640, None, "decimals count too"),
    ("#### 1/" + "9" * 641, None, "in a fraction each side"),
    ("#### inf", None, "infinity is no number"),
    ("#### nan", None, "nor is not-a-number"),
    ("#### 5\ud800", "5", "half a character is no digit"),
    ("#### 5\x00", "5", "nor is a NUL"),
]
NEAR_MISSES = (
    "1",
    "2",
    "3",
    "5",
    "7",
    "9",
    "10",
    "-10",
    "12",
    "16",
    "18",
    "19",
    "20",
    "123",
    "234",
    "1234",
    "0",
    "1000",
)


@pytest.mark.parametrize(("completion", "paid", "why"), ANSWERS, ids=[answer[-24:] for answer, _, _ in ANSWERS])
def test_what_a_careful_reader_takes_for_the_answer(
    score: Callable[..., float], completion: str, paid: str | None, why: str
) -> None:
    """Each completion pays the one number that it states without doubt, and none of those it could be taken for."""
    for reference in {*NEAR_MISSES, *([paid] if paid else [])}:
        assert score("gsm8k", f"so\n#### {reference}", f"Thus.\n{completion}") == float(reference == paid), why


@pytest.mark.parametrize(
    "reference", ["18", " 18\n", "18.0", "$18", "18 ", "1.8e1", "36/2", 18, 18.0, "... 3 + 15 ... #### 18"]
)
def test_a_reference_is_an_answer_text_or_a_bare_number(score: Callable[..., float], reference: Any) -> None:
    """Without a marker the reference is one number, as a text or as a number of JSON."""
    assert score("gsm8k", freeze(reference), "#### 18") == 1.0
    assert score("gsm8k", freeze(reference), "#### 18.5") == 0.0


def test_a_float_reference_means_its_decimal_form(score: Callable[..., float]) -> None:
    """0.1 is one tenth, as the data has it, not the nearest binary fraction; comparison is exact all the same."""
    assert score("gsm8k", 0.1, "#### 1/10") == 1.0
    assert score("gsm8k", 1e23, "#### 100,000,000,000,000,000,000,000") == 1.0
    assert score("gsm8k", 0.1, "#### 0.1000000000000000055511151231257827") == 0.0
    assert score("gsm8k", 2**53 + 1, "#### 9007199254740992") == 0.0


@pytest.mark.parametrize(
    ("reference", "seen"),
    [
        ("eighteen", r"'eighteen' \(str\)"),
        ("so it is 18", r"'so it is 18' \(str\)"),
        ("", r"'' \(str\)"),
        ("#### ", r"' ' \(str\)"),
        ("18 of them #### eighteen", r"' eighteen' \(str\)"),
        ("#### 18 or 19", r"' 18 or 19' \(str\)"),
        ("#### 1,23", r"' 1,23' \(str\)"),
        (None, "None"),
        (True, r"True \(bool\)"),
        (float("nan"), r"nan \(float\)"),
        (float("inf"), r"inf \(float\)"),
        ([18], r"\[18\] \(list\)"),
        ({"answer": "#### 18"}, r"\{'answer': '#### 18'\} \(dict\)"),
        (10**700, "an int of 2326 bits"),
    ],
)
def test_a_reference_without_a_readable_number_is_a_data_fault(
    score: Callable[..., float], reference: Any, seen: str
) -> None:
    """The error shows what stands where the number should, and says what to change."""
    with pytest.raises(RewardContractError, match=rf"gsm8k expects a reference .*, got {seen}: map the column"):
        score("gsm8k", reference, "#### 18")


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "completion",
    [
        pytest.param("#### " + "9" * 1_000_000, id="digits"),
        pytest.param("#### 1" + ",234" * 250_000, id="groups"),
        pytest.param("#### 1e" + "9" * 1_000_000, id="exponent"),
        pytest.param("#### 1/" + "9" * 1_000_000, id="denominator"),
        pytest.param("#### " + "$" * 1_000_000, id="currency"),
        pytest.param("#### " + "*" * 1_000_000 + "5", id="bold marks"),
        pytest.param("####" + " " * 1_000_000, id="spaces"),
        pytest.param("####" + "\n" * 1_000_000, id="lines"),
        pytest.param("#" * 1_000_000, id="markers"),
        pytest.param("#### 5 " * 150_000 + "####", id="answers"),
        pytest.param("#### 4" + " m2" * 300_000 + "5", id="units"),
    ],
)
def test_a_long_completion_is_no_hang(score: Callable[..., float], completion: str) -> None:
    """A million characters made to slow a reader down are read in passing."""
    assert score("gsm8k", "#### 5", completion) == 0.0
