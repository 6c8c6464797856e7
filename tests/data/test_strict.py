# SPDX-License-Identifier: Apache-2.0
"""One line of a file: a row with its mapped columns, or a fault that says how to mend it."""

from __future__ import annotations

import gzip
import json
import re
from typing import Any

import pytest
import zstandard
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import UNSET

from posttrain.data.strict import RowFault, StrictRows
from posttrain.errors import RewardConfigError
from posttrain.jsonl.keys import keys_of

_numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
_json = st.recursive(
    st.none() | st.booleans() | _numbers | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)


def reader(**roles: str) -> StrictRows:
    """A reader of these columns."""
    return StrictRows(roles or {"prompt": "q", "reference": "a"})


def test_only_mapped_columns_are_kept() -> None:
    """A row is its mapped columns under their canonical names; one that it does not have is UNSET, never None."""
    row = reader(prompt="q", reference="a", row_id="id").check(b'{"x": [1], "a": null, "q": "hello"}')
    assert (row.prompt, row.reference, row.row_id) == ("hello", None, UNSET)
    assert reader().check(b'{"row_id": 3}').row_id is UNSET
    assert reader(prompt="q", reference="a").text(row) == b'{"q":"hello","a":null}'


@given(st.dictionaries(st.sampled_from(["q", "a", "é", "x/", "other"]), _json), st.booleans(), st.booleans())
def test_any_row_is_read_as_json_reads_it(row: dict[str, Any], spaced: bool, escaped: bool) -> None:
    """Any JSON object is a row, in any layout and spelling, and its values are those that `json` reads."""
    separators = (" , ", " : ") if spaced else (",", ":")
    line = json.dumps(row, separators=separators, ensure_ascii=escaped).encode()
    found = reader(prompt="é", reference="x/", row_id="q").check(line)
    expected = json.loads(line)
    for role, key in (("prompt", "é"), ("reference", "x/"), ("row_id", "q")):
        value = getattr(found, role)
        assert (key in expected) == (value is not UNSET)
        assert json.dumps(None if value is UNSET else value) == json.dumps(expected.get(key))
    assert keys_of(line) == list(expected)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("[1]", "expected a JSON object, got [1] (list): the file has one JSON object per line"),
        ("null", "expected a JSON object, got None"),
        ('"text"', "expected a JSON object, got 'text' (str)"),
        ('{"a": NaN}', "JSON has no NaN and no Infinity: write null, or leave the key out"),
        ('{"x": -Infinity}', "JSON has no NaN and no Infinity"),
        ("{'a': 1}", "JSON strings stand in double quotes: write rows with json.dumps"),
        ('{"a": None}', "JSON has null, true and false: write rows with json.dumps"),
        ('{"a": 1,}', "is no valid JSON: trailing comma in object at byte 8: '{\"a\": 1,}'"),
        ('{"a": 1} {"a": 2}', "is no valid JSON: trailing characters at byte"),
        ('{"a": 01}', "is no valid JSON: invalid number at byte"),
        ('{"x": "a\tb"}', "is no valid JSON: invalid character at byte"),
        ('{"a": "x', "is no complete JSON: it ends early"),
        ("{", "is no complete JSON: it ends early"),
        (b'{"a": "\xff"}', "is not UTF-8 at byte 7"),
        (b'{"x": "\xff"}', "is not UTF-8 at byte 7"),
        (b'{"\xff": 1}', "is not UTF-8 at byte 2"),
        ('{"x": "\\ud800"}', "holds half of a surrogate pair such as \\ud800, which is no character"),
        ('{"a": "\\uDC00 and so on"}', "holds half of a surrogate pair"),
        ('{"a": "\\ud800", "b": NaN}', "is no valid JSON: unexpected end of"),
        ('{"a": 1e999}', "holds a value that can't be read: Number out of range"),
        ('{"a": ' + "9" * 5000 + "}", "holds a value that can't be read: Integer value out of range"),
        ("[1e999]", "holds a value that can't be read: Number out of range"),
        ("[1, NaN]", "JSON has no NaN and no Infinity"),
        ('{"a": ' + "[" * 100_000, "is nested too deep to be read"),
        ("[" * 100_000, "is nested too deep to be read"),
    ],
)
def test_a_line_that_is_no_row(line: str | bytes, fault: str) -> None:
    """A line that is no JSON object is refused with what was found and the fix, in columns that nobody maps too."""
    with pytest.raises(RowFault, match=r"\w") as caught:
        reader().check(line if isinstance(line, bytes) else line.encode())
    assert fault in str(caught.value)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b'[{"a": 1}]', "from one array, jq -c '.[]' makes such a file"),
        (gzip.compress(b'{"a": 1}'), "is gzip data: let the file's name end in .gz"),
        (zstandard.compress(b'{"a": 1}'), "is zstd data: let the file's name end in .zst"),
        (b"PAR1\x15", "is Parquet data: read it with rl.data.source=hf"),
        ('{"a": 1}'.encode("utf-16"), "is UTF-16: convert the file to UTF-8"),
    ],
)
def test_the_first_line_gives_a_wrong_format_away(line: bytes, fault: str) -> None:
    """A file of another format is recognised by its first line, and by that only."""
    with pytest.raises(RowFault, match=r"\w") as caught:
        reader().check(line, is_first=True)
    assert fault in str(caught.value)
    with pytest.raises(RowFault, match=r"\w") as caught:
        reader().check(line)
    assert fault not in str(caught.value)


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "\ud800"])
def test_a_name_that_no_reader_can_find(name: str) -> None:
    """A column's name that the reader can't look for is refused in the config's words, not somewhere inside."""
    with pytest.raises(RewardConfigError, match=r"rl\.data\.response_column: a JSONL column's name can't hold"):
        reader(prompt="p", reference=name)


class TestRepeatedKeys:
    """A mapped key may stand only once in a row."""

    @pytest.mark.parametrize(
        ("line", "keys"),
        [
            ('{"a": 1, "b": 2, "a": 3}', "'a'"),
            ('{"a":1,"b":2,"a":3}', "'a'"),
            ('{ "a" : 1, "a" : 1 }', "'a'"),
            ('{"a": 1, "\\u0061": 2}', "'a'"),
            ('{"\\u0061": 1, "\\u0061": 2}', "'a'"),
            ('{"é": 1, "é": 2}', "'é'"),
            (r'{"\u00e9": 1, "é": 2}', "'é'"),
            (r'{"\u00e9": 1, "\u00E9": 2}', "'é'"),
            (r'{"x/y": 1, "x\/y": 2}', "'x/y'"),
            ('{"a": {"a": 1}, "é": 2, "a": 3, "é": 4}', "'a', 'é'"),
        ],
    )
    def test_refused(self, line: str, keys: str) -> None:
        """A repeated key is named in every layout and spelling."""
        with pytest.raises(RowFault, match="more than once") as caught:
            reader(prompt="a", reference="é", row_id="x/y").check(line.encode())
        assert str(caught.value) == f"has the key {keys} more than once, so that it is open which counts; keep one"

    @pytest.mark.parametrize(
        "line",
        [
            '{"a": "a", "list": ["a", {"a": 1, "b": 2}], "text": "said \\"a\\": \\"a\\""}',
            '{"a": 1, "b": 2, "b": 3}',
            '{"a": "\\u0061 and \\u0061"}',
        ],
    )
    def test_other_places_are_fine(self, line: str) -> None:
        """The same letters as a value, inside a text or in a nested object, and keys that nobody maps, are fine."""
        assert reader(prompt="a").check(line.encode()).prompt == json.loads(line)["a"]

    @given(st.dictionaries(st.text(max_size=3), _json, min_size=1, max_size=4), st.data())
    def test_found_in_any_row(self, row: dict[str, Any], data: st.DataObject) -> None:
        """Whatever else stands in a row, a mapped key that is written twice is found."""
        key = data.draw(st.sampled_from(sorted(row)))
        assume(not re.search(r'["\\\x00-\x1f]', key))
        parts = [f"{json.dumps(each, ensure_ascii=False)}: {json.dumps(value)}" for each, value in row.items()]
        second = json.dumps(key, ensure_ascii=data.draw(st.booleans()))
        parts.insert(data.draw(st.integers(0, len(parts))), f"{second}:{json.dumps(data.draw(_json))}")
        with pytest.raises(RowFault, match="more than once"):
            reader(prompt=key).check(f"{{{','.join(parts)}}}".encode())
