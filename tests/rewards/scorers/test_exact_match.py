# SPDX-License-Identifier: Apache-2.0
"""`exact_match` pays equality after normalisation, and nothing less."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.errors import RewardContractError


@pytest.mark.parametrize(
    ("reference", "completion", "expected"),
    [("red blue", "blue red", 0.0), ("go", "go go", 0.0), (" green", "green", 1.0)],
)
def test_order_and_count_matter(score: Callable[..., float], reference: str, completion: str, expected: float) -> None:
    """Equality of whole texts, not of word sets; whitespace around either side is no part of it. Case exact-02."""
    assert score("exact_match", reference, completion) == expected


@pytest.mark.parametrize("completion", ["anything", ""])
@pytest.mark.parametrize("reference", ["", " \n\u00a0", ["a", ""], ["a", "\t"]])
def test_an_empty_reference_is_a_data_fault(score: Callable[..., float], reference: Any, completion: str) -> None:
    """An accepted answer that is empty, also once normalised, must not become a free reward. Case exact-02."""
    with pytest.raises(RewardContractError, match=r"strings and not empty, but reference(\[1\])? is '.*' \(str\): "):
        score("exact_match", reference, completion)


@pytest.mark.parametrize(
    ("reference", "completion", "expected"),
    [
        (["NYC", "New York City"], "new york city", 1.0),
        ("2, 3", "2, 3", 1.0),
        ("2, 3", "3", 0.0),
        (["2", "3"], "3", 1.0),
        (("2", "3"), "2", 1.0),
        (["2", "3"], "2, 3", 0.0),
    ],
)
def test_a_list_accepts_each_of_its_members(
    score: Callable[..., float], reference: Any, completion: str, expected: float
) -> None:
    """The best over the list counts, a string is one answer and no list, a frozen list is a tuple. Case exact-03."""
    assert score("exact_match", reference, completion) == expected


def test_every_member_that_is_no_string_is_named(score: Callable[..., float]) -> None:
    """The error shows each offender with its place and says how to write numbers. Case exact-03."""
    offenders = r"but reference\[1\] is 42 \(int\); reference\[2\] is None: write numbers as text"
    with pytest.raises(RewardContractError, match=offenders) as caught:
        score("exact_match", ["forty-two", 42, None], "42")
    assert "forty-two" not in str(caught.value)


def test_a_long_list_of_offenders_is_counted(score: Callable[..., float]) -> None:
    """The error stays readable: twenty offenders are shown and the others counted."""
    with pytest.raises(RewardContractError, match=r"reference\[19\] is 19 \(int\); and 80 more: write"):
        score("exact_match", list(range(100)), "1")
    with pytest.raises(RewardContractError, match=r"reference\[19\] is 19 \(int\): write"):
        score("exact_match", list(range(20)), "1")


@pytest.mark.parametrize("reference", [[], (), {}, {"answer": "x"}, None, 42, 4.2, True, b"x"])
def test_a_reference_of_another_shape_is_a_data_fault(score: Callable[..., float], reference: Any) -> None:
    """Only a string or a list with something in it can be matched. Case exact-03."""
    with pytest.raises(RewardContractError, match=r"exact_match expects .* non-empty list of strings, got "):
        score("exact_match", reference, "x")


@pytest.mark.parametrize(
    ("reference", "completion", "expected"),
    [
        pytest.param("Straße", "STRASSE", 1.0, id="full folding: sharp s is ss"),
        pytest.param("ﬁnal", "FINAL", 1.0, id="full folding: the ligature is two letters"),
        pytest.param("ὈΔΥΣΣΕΎΣ", "ὀδυσσεύς", 1.0, id="the final sigma is a sigma"),
        pytest.param("ς", "σ", 1.0, id="a lone final sigma too"),
        pytest.param("ǰ", "J\u030c", 1.0, id="folding splits U+01F0, composing afterwards mends it"),
        pytest.param("J\u030c", "ǰ", 1.0, id="the same from the other side"),
        pytest.param("ǰ\u0323", "J\u0323\u030c", 1.0, id="with a second mark, whatever the order"),
        pytest.param("İ", "i\u0307", 1.0, id="a capital i with a dot is an i with a dot above"),
        pytest.param("İ", "i", 0.0, id="it is no plain i: folding knows no language"),
        pytest.param("ı", "I", 0.0, id="nor is a dotless i"),
        pytest.param("Zürich", "ZU\u0308RICH", 1.0, id="composed and decomposed are one"),
        pytest.param("Zürich", "Zurich", 0.0, id="accents matter"),
        pytest.param("\u212b", "å", 1.0, id="the angstrom sign is canonically an a with a ring"),
        pytest.param("\u1f82", "\u1f00\u0345\u0300", 1.0, id="an iota subscript folds alike wherever its marks stand"),
        pytest.param("²", "2", 0.0, id="compatibility forms stay apart"),
        pytest.param("２", "2", 0.0, id="so does a full-width digit"),
        pytest.param("가", "\u1100\u1161", 1.0, id="Hangul syllables equal their letters"),
        pytest.param("a b", "a\u00a0\u2003\n\tb", 1.0, id="any run of whitespace is one space"),
        pytest.param("ab", "a b", 0.0, id="but a space is there or not"),
        pytest.param("a\u200bb", "ab", 0.0, id="a zero-width space is no whitespace"),
        pytest.param("42", "42.", 0.0, id="punctuation matters"),
        pytest.param("42", "42.0", 0.0, id="numbers are texts"),
        pytest.param("a", "", 0.0, id="an empty completion matches nothing"),
        pytest.param("a", " \n", 0.0, id="nor does a blank one"),
        pytest.param("\ud800", "\ud800", 1.0, id="a lone surrogate equals itself"),
        pytest.param("a\x00", "A\x00", 1.0, id="a NUL is a character"),
    ],
)
def test_spelling_is_folded_and_nothing_else(
    score: Callable[..., float], reference: str, completion: str, expected: float
) -> None:
    """Case, canonical spelling and whitespace are folded, by the standard's full and language-free rules."""
    assert score("exact_match", reference, completion) == expected


def test_each_character_equals_its_own_spellings(score: Callable[..., float]) -> None:
    """Every character that has a canonical or folded spelling matches it, in both directions."""
    for point in range(sys.maxunicode + 1):
        whole = chr(point)
        spellings = {unicodedata.normalize("NFC", whole), unicodedata.normalize("NFD", whole), whole.casefold()}
        for spelling in spellings - {whole}:
            if whole.isspace():
                assert spelling.isspace()
            else:
                assert score("exact_match", whole, f"\n{spelling} ") == 1.0, hex(point)
                assert score("exact_match", spelling, whole) == 1.0, hex(point)


def test_no_composition_is_longer_than_the_length_check_allows() -> None:
    """A character stands for at most four others, so a completion over four times the reference can't match it."""
    longest = max(len(unicodedata.normalize("NFD", chr(point))) for point in range(sys.maxunicode + 1))
    assert longest == 4


texts = st.text(st.characters(exclude_categories=()), min_size=1).filter(lambda text: not text.isspace())


@given(texts, st.sampled_from(["", " ", "\n\u3000"]), st.sampled_from(["NFC", "NFD"]))
def test_a_text_matches_every_spelling_of_itself(score: Callable[..., float], text: str, pad: str, form: Any) -> None:
    """Normal form, folded case and whitespace around it never part a text from itself."""
    spelling = unicodedata.normalize(form, text)
    assert score("exact_match", text, f"{pad}{spelling}{pad}") == 1.0
    assert score("exact_match", text, spelling.casefold()) == 1.0
    assert score("exact_match", [f"{text}x", text], text.replace(" ", "\t\n")) == 1.0


@given(texts, texts)
def test_matching_is_symmetric_and_one_more_word_breaks_it(score: Callable[..., float], one: str, other: str) -> None:
    """Neither side is the lenient one, and a text with something added is another text."""
    assert score("exact_match", one, other) == score("exact_match", other, one)
    assert score("exact_match", one, f"{one} word") == 0.0
    assert score("exact_match", f"{one} word", one) == 0.0


@pytest.mark.timeout(60)
@pytest.mark.parametrize("piece", ["a", " ", "a ", "\u0301\u0316", "\u0316\u0301\u0345", "ǰ", "\u1100\u1161", "ﬃ"])
def test_a_long_completion_is_no_hang(score: Callable[..., float], piece: str) -> None:
    """Combining marks out of order take quadratic time to sort, so a text that is too long to match is not sorted."""
    assert score("exact_match", "short", piece * 500_000) == 0.0
