# SPDX-License-Identifier: Apache-2.0
"""The names of columns."""

import pytest

from posttrain.errors import RewardConfigError
from posttrain.rollouts.columns import RolloutColumns, column_flag, missing_column
from posttrain.rollouts.grouping import by_columns


def test_defaults_are_the_canonical_names() -> None:
    """Without settings each column is called like its field."""
    columns = RolloutColumns()
    assert {name: getattr(columns, name) for name in RolloutColumns.__slots__} == {
        name: name
        for name in (
            "group_id",
            "trajectory_id",
            "prompt",
            "completion",
            "completions",
            "reference",
            "finish_reason",
            "completion_token_count",
        )
    }


def test_every_bad_name_is_refused_at_once() -> None:
    """An empty name, a name that is no string and a name that stands twice come in one error, each with its flag."""
    with pytest.raises(RewardConfigError, match="columns of the rollouts are not valid") as caught:
        RolloutColumns(prompt="", completion=3, reference="x", finish_reason="x")  # type: ignore[arg-type]  # on purpose
    message = str(caught.value)
    assert "prompt (--prompt-column): expected a column's name, got '' (str)" in message
    assert "completion (--completion-column): expected a column's name, got 3 (int)" in message
    assert "reference and finish_reason are both column 'x': give --reference-column and --finish" in message
    assert "trajectory_id" not in message


def test_a_default_counts_as_taken() -> None:
    """Naming one column like another one's default is refused."""
    with pytest.raises(RewardConfigError, match="completion and reference are both column 'completion'"):
        RolloutColumns(reference="completion")


@pytest.mark.parametrize(
    ("role", "flag"), [("prompt", "--prompt-column"), ("completion_token_count", "--completion-token-count-column")]
)
def test_flag_of_a_column(role: str, flag: str) -> None:
    """A field's flag is its name with dashes and ``-column``."""
    assert column_flag(role) == flag


def test_missing_column_names_the_nearest() -> None:
    """The words for a missing column name what is there, the nearest name and the fix."""
    assert missing_column("question", ["id", "questions"], "set --prompt-column") == (
        "no column 'question': the row has 'id', 'questions'; did you mean 'questions'? set --prompt-column"
    )


def test_missing_column_in_an_empty_row() -> None:
    """A row without any column is said to be one."""
    assert missing_column("a", [], "set it") == "no column 'a': the row has no column at all; set it"


def test_missing_column_is_bounded() -> None:
    """Of many columns the first twelve are named and the rest counted; absurdly long names are cut."""
    words = missing_column("zzz", [f"c{at}" for at in range(15)], "fix")
    assert "'c11' and 3 more; fix" in words
    assert "c12" not in words
    # 57 characters and three dots.
    assert f"'{'x' * 57}...'" in missing_column("a", ["x" * 1000], "fix")


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "\ud800"])
def test_a_name_that_no_reader_can_find(name: str) -> None:
    """A name that the reader can't look for is refused as one, in columns and in the grouping alike."""
    with pytest.raises(RewardConfigError, match=r"prompt \(--prompt-column\): no name can hold a quote"):
        RolloutColumns(prompt=name)
    with pytest.raises(RewardConfigError, match="--group-by: no name of a column can hold a quote"):
        by_columns(["id", name])
