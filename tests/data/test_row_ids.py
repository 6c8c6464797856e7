# SPDX-License-Identifier: Apache-2.0
"""Ids of rows: what can be one, the digest that stands in for one, and ids that stand twice."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.data.row_ids import SeenIds, content_id, id_text, note_repeated
from posttrain.jsonl.faults import Faults
from strategies import canonical_text, changed_in_one_place, json_values, shuffled


@pytest.mark.parametrize(
    ("value", "text"),
    [("a", "a"), (" ", " "), (0, "0"), (-3, "-3"), ("", None), (True, None), (1.0, None), (None, None), (["a"], None)],
)
def test_what_can_be_an_id(value: object, text: str | None) -> None:
    """A text that is not empty and an int are ids, and nothing else is: a bool is no int here."""
    assert id_text(value) == text


def test_the_digest_is_that_of_the_canonical_text() -> None:
    """The id is the first half of a SHA-256 over sorted keys, no spaces and no needless escapes."""
    text = '[[{"content":"é","role":"user"}],{"a":[1,1.0,true,null],"b":""}]'
    found = content_id([{"role": "user", "content": "é"}], {"b": "", "a": [1, 1.0, True, None]})
    assert found == hashlib.sha256(text.encode()).hexdigest()[:32]
    assert content_id("p", None) == hashlib.sha256(b'["p",null]').hexdigest()[:32]


@given(json_values, st.data())
def test_the_digest_is_type_strict(value: Any, data: st.DataObject) -> None:
    """Rows share an id exactly when their values are the same: 1, 1.0 and true differ, the order of keys does not."""
    other = data.draw(st.one_of(shuffled(value), changed_in_one_place(value)))
    try:
        canonical_text([value, other]).encode()
    except UnicodeEncodeError:
        with pytest.raises(ValueError, match="surrogates not allowed"):
            content_id(_lists(value), _lists(other))
        return
    same = canonical_text(value) == canonical_text(other)
    assert (content_id(_lists(value), 0) == content_id(_lists(other), 0)) == same
    assert (content_id(0, _lists(value)) == content_id(0, _lists(other))) == same


def _lists(value: Any) -> Any:
    # Rows hold plain JSON containers.
    return json.loads(canonical_text(value))


def test_prompt_and_reference_do_not_run_together() -> None:
    """The same texts on the other side give another id."""
    assert content_id("a", "b") != content_id("b", "a")
    assert content_id("a", None) != content_id(None, "a")


@given(st.lists(st.text(max_size=2), max_size=40))
def test_repeated_ids_are_named_exactly(ids: list[str]) -> None:
    """Every row whose id an earlier one has is named with the first that has it, and no other row."""
    seen, faults = SeenIds(), Faults()
    for row_id in ids:
        seen.add(row_id)
    note_repeated(seen.suspects(), ((at, f"row {at}", row_id) for at, row_id in enumerate(ids)), "id", faults)
    expected = [(at, ids.index(row_id)) for at, row_id in enumerate(ids) if ids.index(row_id) < at]
    assert faults.total == len(expected)
    if expected:
        at, first = expected[0]
        assert f"row {at}: 'id': row {first} has the id {ids[at]!r} already" in str(faults.error("data"))


def test_a_suspicion_alone_is_no_fault() -> None:
    """Ids that only share a hash are looked at by their text, and nobody is blamed."""
    faults = Faults()
    note_repeated({hash("a"), hash("b")}, [(0, "row 0", "a"), (1, "row 1", "b")], "id", faults)
    assert faults.total == 0
