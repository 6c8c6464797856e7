# SPDX-License-Identifier: Apache-2.0
"""`nonempty` pays what a reader can see."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable, Iterator
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

# The derivation of Default_Ignorable_Code_Point in the header of Unicode's DerivedCoreProperties: format characters
# (Cf), variation selectors and Other_Default_Ignorable_Code_Point, less white space, annotation characters, Egyptian
# format controls and prepended concatenation marks.
OTHER_DEFAULT_IGNORABLE = (
    *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2065, 0x3164, 0xFFA0, *range(0xFFF0, 0xFFF9)),
    *(0xE0000, *range(0xE0002, 0xE0020), *range(0xE0080, 0xE0100), *range(0xE01F0, 0xE1000)),
)
VARIATION_SELECTORS = (*range(0x180B, 0x180E), 0x180F, *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))
VISIBLE_FORMAT_CHARACTERS = frozenset(
    chain(
        range(0xFFF9, 0xFFFC),  # interlinear annotation
        range(0x13430, 0x13440),  # Egyptian format controls
        range(0x0600, 0x0606),  # prepended concatenation marks, from here on
        (0x06DD, 0x070F, 0x0890, 0x0891, 0x08E2, 0x110BD, 0x110CD),
    )
)


def _default_ignorable() -> Iterator[int]:
    yield from OTHER_DEFAULT_IGNORABLE
    yield from VARIATION_SELECTORS
    for point in range(sys.maxunicode + 1):
        if unicodedata.category(chr(point)) == "Cf" and point not in VISIBLE_FORMAT_CHARACTERS:
            yield point


def test_each_code_point_alone_is_visible_or_not_as_unicode_says(score: Callable[..., float]) -> None:
    """Of all code points, exactly whitespace, default-ignorables, controls, surrogates and U+2800 show nothing."""
    invisible = {point for point in range(sys.maxunicode + 1) if chr(point).isspace()}
    invisible.update(_default_ignorable())
    invisible.update(point for point in range(0x100) if unicodedata.category(chr(point)) == "Cc")
    invisible.update(range(0xD800, 0xE000))
    invisible.add(0x2800)
    scores = [score("nonempty", None, chr(point)) for point in range(sys.maxunicode + 1)]
    different = [hex(point) for point, value in enumerate(scores) if value != float(point not in invisible)]
    assert different == []


@pytest.mark.parametrize(
    ("completion", "expected"),
    [
        pytest.param("", 0.0, id="nothing"),
        pytest.param(" \t\r\n\u00a0\u2003\u3000\u2028", 0.0, id="whitespace of many kinds"),
        pytest.param("\u200b\u200c\u200d\u2060\ufeff", 0.0, id="zero-width characters and a byte order mark"),
        pytest.param("\u200e\u200f\u202a\u202e\u2066\u2069\u061c", 0.0, id="bidi controls"),
        pytest.param("\u115f\u1160\u3164\uffa0", 0.0, id="Hangul fillers"),
        pytest.param("\u00ad \ufe0f \U000e0041", 0.0, id="soft hyphen, variation selector, tag"),
        pytest.param("\x00\x1b\x7f\x85", 0.0, id="control characters"),
        pytest.param("\u2800\u2800", 0.0, id="blank braille"),
        pytest.param("\ud83d", 0.0, id="half a character"),
        pytest.param(".", 1.0, id="a full stop"),
        pytest.param("\u200b\n0\u200b", 1.0, id="one digit among invisible ones"),
        pytest.param("\u0301", 1.0, id="a combining accent alone"),
        pytest.param("\u2801", 1.0, id="braille with a dot"),
        pytest.param("❤\ufe0f", 1.0, id="an emoji with its variation selector"),
        pytest.param("\ue000", 1.0, id="private use: a box, but a visible one"),
    ],
)
def test_what_shows_and_what_does_not(score: Callable[..., float], completion: str, expected: float) -> None:
    """A completion pays as soon as one character of it can be seen."""
    assert score("nonempty", None, completion) == expected


@given(st.text(st.characters(exclude_categories=())), st.text(st.characters(exclude_categories=())))
def test_joined_texts_show_what_their_parts_show(score: Callable[..., float], left: str, right: str) -> None:
    """Visibility is a matter of single characters: two texts together show something when either does."""
    both = max(score("nonempty", None, left), score("nonempty", None, right))
    assert score("nonempty", None, left + right) == both


@pytest.mark.timeout(60)
def test_a_long_blank_page_is_no_hang(score: Callable[..., float]) -> None:
    """A million invisible characters, and one visible at their end, are read in passing."""
    assert score("nonempty", None, "\u200b " * 500_000) == 0.0
    assert score("nonempty", None, "\u200b " * 500_000 + "x") == 1.0
