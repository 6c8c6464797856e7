# SPDX-License-Identifier: Apache-2.0
"""Rows that a function makes: the same each time, strict, and fresh whenever they are taken."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from posttrain.data import ColumnMapping, Env, FunctionRows, open_rows
from posttrain.errors import RewardConfigError, RewardContractError

SUMS = "posttrain.training.tiny.addition:training_rows"


def test_rows_come_from_a_path() -> None:
    """Opened by the path of the function; the rows are the function's own, in its order."""
    from posttrain.training.tiny.addition import training_rows

    rows = open_rows(SUMS, source="function")
    assert isinstance(rows, FunctionRows)
    assert (rows.title, len(rows), rows.place(7)) == (SUMS, 900, "row [7]")
    assert [(row.prompt, row.reference) for row in rows.take([0, 899])] == [
        (row["prompt"], row["reference"]) for row in (training_rows()[0], training_rows()[899])
    ]
    assert rows.fingerprint == open_rows(SUMS, source="function").fingerprint
    assert rows.fingerprint != open_rows(SUMS.replace("training_rows", "held_out_rows"), source="function").fingerprint


def test_columns_are_mapped_and_the_others_kept() -> None:
    """As with the other sources; what is taken is a copy."""
    made = [{"q": [{"role": "user", "content": "a"}], "a": {"n": 1}, "id": 7, "level": ["x"]}]
    columns = ColumnMapping(prompt_column="q", response_column="a", row_id_column="id")
    rows = FunctionRows(lambda: made, columns)
    (first,) = rows.take([0])
    assert (first.prompt, first.reference, first.row_id) == (made[0]["q"], {"n": 1}, 7)
    assert first.representations == {"level": ["x"]}
    first.reference["n"] = 2
    first.representations["level"].append("y")
    made[0]["a"] = {"n": 3}
    (again,) = rows.take([0])
    assert (again.reference, again.representations) == ({"n": 1}, {"level": ["x"]})
    with pytest.raises(IndexError, match="rows 0 to 0"):
        rows.take([1])


def test_a_function_that_changes_its_mind_is_refused() -> None:
    """A run of it could neither be repeated nor resumed."""
    numbers = count()
    with pytest.raises(RewardConfigError, match=r"the same rows each time; fix the seed.*\n  row \[0\]: .*prompt"):
        FunctionRows(lambda: [{"prompt": str(next(numbers))}])
    lengths = count(1)
    with pytest.raises(RewardConfigError, match="has to give the same rows each time, but gave 1, then 2"):
        FunctionRows(lambda: [{"prompt": "a"}] * next(lengths))


def _raising() -> list[Any]:
    raise KeyError("x")


@pytest.mark.parametrize(
    ("function", "kind", "told"),
    [
        (list, RewardConfigError, "gave no rows"),
        (lambda: {"prompt": "a"}, RewardConfigError, "has to return a list of rows, got"),
        (_raising, RewardConfigError, "raised KeyError: 'x'"),
        (lambda: [{"prompt": "a"}, "b"], RewardContractError, r"row \[1\]: has to be a mapping, got 'b'"),
        (lambda: [{"prompt": float("nan")}], RewardContractError, r"row \[0\]: .*nan"),
        (lambda: [{"prompt": "a", 1: 2}], RewardContractError, r"row \[0\]: "),
        (lambda: [{"question": "a"}], RewardConfigError, "no column 'prompt' for the prompt"),
    ],
)
def test_what_is_no_list_of_rows(function: Callable[[], Any], kind: type[Exception], told: str) -> None:
    """Each fault in words, by the row's place."""
    with pytest.raises(kind, match=told):
        FunctionRows(function)


def test_ids_are_there_and_unique() -> None:
    """Every row that has none, or that of an earlier row, is named."""
    columns = ColumnMapping(row_id_column="id")
    made = [{"prompt": "a", "id": "x"}, {"prompt": "b"}, {"prompt": "c", "id": "x"}]
    with pytest.raises(RewardContractError, match=r"row \[1\]: 'id': expected a row's id") as caught:
        FunctionRows(lambda: made, columns)
    assert "row [2]: 'id': row [0] has the id 'x' already" in str(caught.value)


def test_rows_without_what_is_needed_are_named() -> None:
    """By the environment, as with any source."""
    rows = FunctionRows(lambda: [{"prompt": "a", "reference": "1"}, {"prompt": "b", "reference": None}])
    with pytest.raises(RewardContractError, match=r"row \[1\]: column 'reference' is null"):
        Env(rows, needs=("reference",))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"split": "train"}, "rl.data.split: only an hf source has one"),
        ({"items_fn": "builtins:dict"}, "a function that makes rows makes them as they should be"),
        ({"spool_dir": "x"}, "rl.data.spool_dir: only a jsonl source makes a temporary copy"),
    ],
)
def test_options_of_other_sources_are_refused(options: dict[str, Any], told: str) -> None:
    """Nothing is passed over."""
    with pytest.raises(RewardConfigError, match=told):
        open_rows(SUMS, source="function", **options)


def test_a_path_that_leads_nowhere() -> None:
    """The key, and what is wrong with the path."""
    for path, told in (("nowhere:rows", "module 'nowhere' can't be found"), ("json:nothing", "plain function without")):
        with pytest.raises(RewardConfigError, match=told):
            open_rows(path, source="function")
