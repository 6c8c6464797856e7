# SPDX-License-Identifier: Apache-2.0
"""Names of providers, terms and diagnostics: one validated segment of a metric's path each."""

from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.rewards.contract.names import RESERVED_NAMES, name_fault, name_faults

_FIRST = string.ascii_letters + string.digits
_REST = _FIRST + "_.-"


@given(st.text(_FIRST, min_size=1, max_size=1), st.text(_REST, max_size=20))
def test_names_of_the_allowed_alphabet_are_taken(first: str, rest: str) -> None:
    """A letter or digit, then letters, digits, underscores, dots and hyphens."""
    if first + rest not in RESERVED_NAMES:
        assert name_fault("term", first + rest) is None


@given(st.text(st.characters(exclude_categories=()), max_size=6))
def test_a_name_with_any_other_character_is_refused(name: str) -> None:
    """Whatever the text, it is taken exactly when each character is of the allowed alphabet."""
    allowed = bool(name) and name[0] in _FIRST and all(character in _REST for character in name)
    assert (name_fault("provider", name) is None) is (allowed and name not in RESERVED_NAMES)


@pytest.mark.parametrize(
    "name", ["", "a/b", "../a", ".a", "-a", "_a", "a b", "a\n", "\na", "é", "a²", "٣", "a\x00", "ａ"], ids=ascii
)
def test_a_name_that_is_no_path_segment_is_refused(name: str) -> None:
    """Slashes, blanks, line breaks, a leading sign and letters or digits beyond ASCII are refused."""
    fault = name_fault("diagnostic", name)
    assert fault == (
        f"diagnostic name {name!r} (str): expected letters, digits and any of _ . - after a first letter or digit"
    )


@pytest.mark.parametrize("name", [None, 1, True, b"task", ("task",), ["task"]], ids=repr)
def test_a_name_is_a_string(name: Any) -> None:
    """Anything else is refused as a name, unhashable values included."""
    fault = name_fault("term", name)
    assert fault is not None
    assert fault.startswith("term name ")


@pytest.mark.parametrize("name", ["final", "sample_count"])
@pytest.mark.parametrize("kind", ["provider", "term", "diagnostic"])
def test_names_of_the_framework_are_reserved(kind: str, name: str) -> None:
    """`final` and `sample_count` belong to the framework, under every kind."""
    assert name_fault(kind, name) == f"{kind} name {name!r} is reserved for the framework: choose another"


@pytest.mark.parametrize("name", ["Final", "finals", "sample-count", "final.1"])
def test_only_the_exact_name_is_reserved(name: str) -> None:
    """A longer name or another case is the user's to take."""
    assert name_fault("term", name) is None


def test_every_fault_of_a_list_is_named_and_good_names_are_absent() -> None:
    """Bad, reserved and repeated names come out together, in order."""
    faults = name_faults("term", ["task", "a b", "style", "task", "final", 3])
    assert faults == [
        "term name 'a b' (str): expected letters, digits and any of _ . - after a first letter or digit",
        "term name 'task' stands twice",
        "term name 'final' is reserved for the framework: choose another",
        "term name 3 (int): expected letters, digits and any of _ . - after a first letter or digit",
    ]
    assert name_faults("term", ["task", "style"]) == []
