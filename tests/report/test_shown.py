# SPDX-License-Identifier: Apache-2.0
"""What a person reads of an input, and JSON that comes back exactly."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from posttrain.report.shown import json_bytes, shown, snippet
from strategies import text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("plain", ["text", "plain"]),
        ([{"role": "user", "content": "hi"}], [["user", "hi"]]),
        ([], ["json", "[]"]),
        (
            [{"role": "user", "content": ["parts"]}],
            ["json", '[\n  {\n    "role": "user",\n    "content": [\n      "parts"\n    ]\n  }\n]'],
        ),
        (
            [{"role": "user", "content": "hi", "name": "x"}],
            ["json", '[\n  {\n    "role": "user",\n    "content": "hi",\n    "name": "x"\n  }\n]'],
        ),
        (12345678901234567890, ["json", "12345678901234567890"]),
        ({"k": "é"}, ["json", '{\n  "k": "é"\n}']),
    ],
)
def test_an_input_as_a_person_reads_it(value: Any, expected: Any) -> None:
    """Text and conversations are shown as such; anything else, large integers too, keeps each character of its JSON."""
    assert shown(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ""),
        ("  two\n lines ", "two lines"),
        ([{"role": "system", "content": "rules"}, {"role": "user", "content": "the question"}], "the question"),
        ("x" * 1000, "x" * 160),
    ],
)
def test_a_snippet_is_one_short_line(value: Any, expected: str) -> None:
    """The beginning of a text, or of a conversation's last message."""
    assert snippet(value) == expected


@given(text)
def test_any_text_survives(value: str) -> None:
    """Half a surrogate pair comes back from JSON as it was, alone or among others."""
    assert json.loads(json_bytes([value, {"k": value}])) == [value, {"k": value}]
    json_bytes(value).decode("utf-8")
