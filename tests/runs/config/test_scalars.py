# SPDX-License-Identifier: Apache-2.0
"""What an unquoted word means: numbers as JSON writes them, true, false, null, and nothing else by surprise."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.runs.config.scalars import read_word


def same(left: Any, right: Any) -> bool:
    """Equal, and of the same type: 1, 1.0 and True are three values."""
    return type(left) is type(right) and left == right


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("8", 8),
        ("-3", -3),
        ("0", 0),
        ("0.5", 0.5),
        ("-0.25", -0.25),
        ("1e3", 1000.0),
        ("1E+3", 1000.0),
        ("2.5e-1", 0.25),
        ("1.0", 1.0),
        *((word, True) for word in ("true", "True", "TRUE")),
        *((word, False) for word in ("false", "False", "FALSE")),
        *((word, None) for word in ("null", "Null", "NULL", "~", "")),
    ],
)
def test_numbers_switches_and_null(word: str, value: Any) -> None:
    """What JSON has too is read as in JSON; true, false and null in the three spellings that all of YAML agrees on."""
    assert same(read_word(word), value)


@pytest.mark.parametrize(
    "word",
    [
        *("no", "No", "yes", "on", "off", "y", "n", "tRUE", "nULL", "None"),  # switches of YAML 1.1
        *("08", "010", "-01", "0o17", "0x1F", "0b11"),  # 10 or 8, 15, 31, 3, or text, as you ask
        *("1_000", "1,000", "+5", ".5", "5.", "1e", "e3", "- 1", "１"),
        *("12:30", "1:2:3", "2024-01-01", "2024-01-01T00:00:00Z"),  # base 60 and dates
        *(".inf", "-.inf", ".nan", "inf", "nan", "Infinity", "NaN"),
        *("my_rewards:catalog", "gsm8k", "a b", "/path/x.jsonl", "a: b", "# a", "&a", "*a", "!a", "|", "<<", "-"),
    ],
)
def test_everything_else_is_text(word: str) -> None:
    """What YAML 1.1, YAML 1.2 and TOML read in different ways stays the text that it looks like."""
    assert same(read_word(word), word)


@given(st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False)))
def test_json_numbers_are_read_as_json_reads_them(number: float) -> None:
    """The text of any number that JSON writes gives that number, its type included."""
    word = json.dumps(number)
    assert same(read_word(word), json.loads(word))


def test_a_number_with_too_many_digits_is_text() -> None:
    """What Python refuses to read as an int, 4300 digits and more by default, is left to be refused with its key."""
    assert same(read_word("9" * 5000), "9" * 5000)


@given(st.text())
def test_a_text_is_itself_or_no_text(word: str) -> None:
    """No word becomes another text."""
    value = read_word(word)
    assert not isinstance(value, str) or value == word
