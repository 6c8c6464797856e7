# SPDX-License-Identifier: Apache-2.0
"""The rules by which rows become groups, and their flag."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.errors import RewardConfigError
from posttrain.jsonl.keys import is_readable
from posttrain.rollouts.grouping import BY_GROUP_ID, Grouping, by_columns, consecutive, parse_grouping


@pytest.mark.parametrize(
    ("text", "grouping", "recorded"),
    [
        (None, BY_GROUP_ID, "group-id"),
        ("question", by_columns(["question"]), 'columns:["question"]'),
        (" question , split", by_columns(["question", "split"]), 'columns:["question", "split"]'),
        ("consecutive:4", consecutive(4), "consecutive:4"),
        (" consecutive:16 ", consecutive(16), "consecutive:16"),
    ],
)
def test_flag_and_record(text: str | None, grouping: Grouping, recorded: str) -> None:
    """The flag's value names the rule, and the rule is recorded in a form of its own."""
    assert parse_grouping(text) == grouping
    assert grouping.describe() == recorded


@pytest.mark.parametrize("text", ["consecutive", "consecutive:", "consecutive:0", "consecutive:-4", "consecutive:4.0"])
def test_wrong_runs_are_refused(text: str) -> None:
    """A run without a whole number of at least 1 is refused, also where the number was forgotten."""
    with pytest.raises(RewardConfigError, match="consecutive:N"):
        parse_grouping(text)


@pytest.mark.parametrize("text", ["", " ", "a,", ",a", "a,,b"])
def test_empty_columns_are_refused(text: str) -> None:
    """A name that is missing between the commas is refused."""
    with pytest.raises(RewardConfigError, match="--group-by takes names of columns"):
        parse_grouping(text)


def test_repeated_column_is_refused() -> None:
    """Naming a column twice is a mistake."""
    with pytest.raises(RewardConfigError, match="a column stands twice in a, b, a"):
        parse_grouping("a,b,a")


@pytest.mark.parametrize("size", [True, 0, 4.0, "4"])
def test_run_length_is_an_int(size: object) -> None:
    """Only a whole number is a run's length; True is none."""
    with pytest.raises(RewardConfigError, match="a whole number of at least 1"):
        consecutive(size)  # type: ignore[arg-type]  # on purpose


def test_one_column_may_be_given_as_a_string() -> None:
    """A single name is not taken apart into letters."""
    assert by_columns("prompt") == by_columns(["prompt"])


_columns = st.lists(st.text(min_size=1).filter(is_readable), min_size=1, unique=True).map(tuple)


@given(_columns, _columns)
def test_different_rules_are_recorded_differently(left: tuple[str, ...], right: tuple[str, ...]) -> None:
    """No two lists of columns share a record, whatever characters their names have."""
    assert (by_columns(left).describe() == by_columns(right).describe()) == (left == right)
