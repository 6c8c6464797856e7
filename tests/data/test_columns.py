# SPDX-License-Identifier: Apache-2.0
"""Names of columns: what is a mapping, and what is said of a column that is not there."""

from __future__ import annotations

from typing import Any

import pytest

from posttrain.data.columns import ColumnMapping, missing_column
from posttrain.errors import RewardConfigError


def test_defaults_are_the_canonical_names() -> None:
    """A source with the canonical names needs no mapping, and its reference is not required."""
    columns = ColumnMapping()
    assert columns.roles() == {"prompt": "prompt", "reference": "reference"}
    assert columns.required() == ("prompt",)
    assert ColumnMapping(response_column="reference").required() == ("prompt",)


def test_what_was_asked_for_is_required() -> None:
    """A column that was named has to be there."""
    columns = ColumnMapping(prompt_column="messages", response_column="reward_input", row_id_column="source_id")
    assert columns.roles() == {"prompt": "messages", "reference": "reward_input", "row_id": "source_id"}
    assert columns.required() == ("prompt", "reference", "row_id")


def test_every_bad_name_is_refused_at_once() -> None:
    """Each field that is no column's name is named by its config key."""
    wrong: dict[str, Any] = {"prompt_column": None, "response_column": "", "row_id_column": 3}
    with pytest.raises(RewardConfigError, match="not valid") as caught:
        ColumnMapping(**wrong)
    assert str(caught.value).splitlines()[1:] == [
        "  rl.data.prompt_column: expected a column's name, got None",
        "  rl.data.response_column: expected a column's name, got '' (str)",
        "  rl.data.row_id_column: expected a column's name, got 3 (int)",
    ]


@pytest.mark.parametrize(
    ("names", "keys"),
    [
        (
            {"prompt_column": "a", "response_column": "a"},
            "stands for prompt and reference: give rl.data.prompt_column and rl.data.response_column a column each",
        ),
        ({"prompt_column": "reference"}, "column 'reference' stands for prompt and reference"),
        ({"response_column": "b", "row_id_column": "b"}, "column 'b' stands for reference and row_id"),
    ],
)
def test_a_column_has_one_meaning(names: dict[str, str], keys: str) -> None:
    """One column can't stand for two canonical fields, the default of the reference included."""
    with pytest.raises(RewardConfigError, match=keys):
        ColumnMapping(**names)


def test_a_missing_column_is_explained() -> None:
    """The words name what there is, the nearest name and the config key."""
    columns = ColumnMapping(prompt_column="mesages")
    assert missing_column(columns, "prompt", ["messages", "answer"]) == (
        "no column 'mesages' for the prompt: there is 'messages', 'answer'; did you mean 'messages'? set "
        "rl.data.prompt_column"
    )


def test_a_missing_column_far_from_any_name() -> None:
    """Without a near name none is guessed, many names are cut short, and no name at all is said."""
    columns = ColumnMapping(response_column="zzzz")
    many = missing_column(columns, "reference", [f"column_{at}" for at in range(15)])
    assert "'column_11' and 3 more; set rl.data.response_column" in many
    assert "did you mean" not in many
    assert "there is no column at all; set" in missing_column(columns, "reference", [])


def test_a_long_name_is_cut() -> None:
    """A name of a megabyte does not fill the error."""
    assert len(missing_column(ColumnMapping(), "prompt", ["x" * 1_000_000])) < 200
