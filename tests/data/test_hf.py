# SPDX-License-Identifier: Apache-2.0
"""The Hugging Face path: mapped columns, preserved columns, the row map, and every fault at once."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from posttrain.data.columns import ColumnMapping
from posttrain.data.hf import HfRows
from posttrain.errors import RewardConfigError, RewardContractError

ROWS: list[dict[str, Any]] = [
    {"q": "one", "a": {"n": 1}, "id": "x", "level": 3, "tags": ["s", "t"]},
    {"q": "two", "a": {"n": 2}, "id": "y", "level": None, "tags": []},
    {"q": "three", "a": {"n": 3}, "id": "z", "level": 5, "tags": ["u"]},
]
COLUMNS = ColumnMapping(prompt_column="q", response_column="a", row_id_column="id")


def test_unmapped_columns_are_preserved(datasets: Any) -> None:
    """Mapped columns come under their canonical names, and all others, null or not, as the row's representations."""
    rows = HfRows(datasets.Dataset.from_list(ROWS), COLUMNS)
    last, first = rows.take([2, 0])
    assert (first.prompt, first.reference, first.row_id) == ("one", {"n": 1}, "x")
    assert first.representations == {"level": 3, "tags": ["s", "t"]}
    assert (last.prompt, last.representations) == ("three", {"level": 5, "tags": ["u"]})
    assert rows.take([1])[0].representations == {"level": None, "tags": []}
    assert len(rows) == 3
    assert rows.column_names == ["q", "a", "id", "level", "tags"]
    assert rows.place(2) == "row [2]"


def test_a_reference_that_nobody_mapped_stays_what_it_is(datasets: Any) -> None:
    """Without a response column, a column called reference is the reference, and any other is preserved."""
    dataset = datasets.Dataset.from_list([{"prompt": "p", "reference": "r", "row_id": 7}])
    (row,) = HfRows(dataset).take([0])
    assert (row.prompt, row.reference, row.row_id, row.representations) == ("p", "r", UNSET, {"row_id": 7})
    (row,) = HfRows(dataset, ColumnMapping(response_column="row_id")).take([0])
    assert (row.reference, row.representations) == (7, {"reference": "r"})


def test_values_are_plain_python_in_any_format(datasets: Any) -> None:
    """A dataset that was left in another format gives plain Python values all the same."""
    (row,) = HfRows(datasets.Dataset.from_list(ROWS).with_format("numpy"), COLUMNS).take([0])
    assert type(row.representations["level"]) is int
    assert type(row.reference["n"]) is int


def test_each_take_is_fresh(datasets: Any) -> None:
    """What one taker does to a row, no other sees."""
    rows = HfRows(datasets.Dataset.from_list(ROWS), COLUMNS)
    rows.take([0])[0].representations["tags"].append("changed")
    assert rows.take([0])[0].representations["tags"] == ["s", "t"]


def test_all_wrong_names_are_told(datasets: Any) -> None:
    """A column that was asked for and is not there is named with the columns that are, and the nearest."""
    columns = ColumnMapping(prompt_column="queston", response_column="answr", row_id_column="id")
    dataset = datasets.Dataset.from_list([{"question": "q", "answer": "a"}])
    with pytest.raises(RewardConfigError, match="gsm8k lacks a column that was asked for") as caught:
        HfRows(dataset, columns, title="gsm8k")
    there = "there is 'question', 'answer'"
    assert str(caught.value).splitlines()[1:] == [
        f"  no column 'queston' for the prompt: {there}; did you mean 'question'? set rl.data.prompt_column",
        f"  no column 'answr' for the reference: {there}; did you mean 'answer'? set rl.data.response_column",
        f"  no column 'id' for the row_id: {there}; set rl.data.row_id_column",
    ]


def test_gaps_are_found(datasets: Any) -> None:
    """Rows with a null where a prompt or a reference should be are known by place, also in a selection of rows."""
    dataset = datasets.Dataset.from_list([{"q": None, "a": 1}, {"q": "x", "a": None}, {"q": "y", "a": 2}])
    columns = ColumnMapping(prompt_column="q", response_column="a")
    rows = HfRows(dataset, columns)
    assert (rows.gaps["prompt"].first, rows.gaps["reference"].first) == ([0], [1])
    rows = HfRows(dataset.select([2, 1]), columns)
    assert (rows.gaps["prompt"].total, rows.gaps["reference"].first) == (0, [1])
    assert HfRows(dataset, ColumnMapping(prompt_column="a")).gaps["reference"].total == 3


def test_ids_are_checked(datasets: Any) -> None:
    """Ids that stand twice, and values that are no id, are named all at once."""
    dataset = datasets.Dataset.from_list([{"prompt": "p", "id": each} for each in ["a", "", "b", "a", None]])
    with pytest.raises(RewardContractError, match="the dataset: 3 faults in the rows") as caught:
        HfRows(dataset, ColumnMapping(row_id_column="id"))
    assert str(caught.value).splitlines()[1:] == [
        "  row [1]: 'id': expected a row's id, a text that is not empty or an int, got '' (str)",
        "  row [3]: 'id': row [0] has the id 'a' already; each row has its own",
        "  row [4]: 'id': expected a row's id, a text that is not empty or an int, got None",
    ]


@pytest.mark.parametrize("kind", ["splits", "streamed", "list", "empty"])
def test_what_is_no_table(datasets: Any, kind: str) -> None:
    """Several splits, a streamed dataset, no dataset at all and an empty one are each refused with the fix."""
    dataset = datasets.Dataset.from_list([{"prompt": "p"}])
    given_one, fault = {
        "splits": (datasets.DatasetDict(a=dataset, b=dataset), r"has the splits a, b: choose one with rl\.data\.split"),
        "streamed": (dataset.to_iterable_dataset(), "IterableDataset.*; load it without streaming"),
        "list": ([{"prompt": "p"}], r"expected a datasets\.Dataset, .*, got <class 'list'>"),
        "empty": (dataset.select([]), "the dataset has no rows"),
    }[kind]
    with pytest.raises(RewardConfigError, match=fault):
        HfRows(given_one)


class TestItemsFn:
    """The row map of a source."""

    def test_it_rewrites_values_before_columns_are_mapped(self, datasets: Any) -> None:
        """Prompt, reference, id and preserved columns are those that the map gave, whether it copied or not."""

        def prepare(row: dict[str, Any]) -> dict[str, Any]:
            row["q"] = [{"role": "user", "content": row["q"]}]
            row["tags"].append("seen")
            return {**row, "id": f"{row['id']}!"}

        (row,) = HfRows(datasets.Dataset.from_list(ROWS), COLUMNS, items_fn=prepare).take([1])
        assert row.prompt == [{"role": "user", "content": "two"}]
        assert (row.reference, row.row_id) == ({"n": 2}, "y!")
        assert row.representations == {"level": None, "tags": ["seen"]}

    def test_it_makes_json_of_what_is_none(self, datasets: Any) -> None:
        """A value that the dataset holds as a date can be written as a text."""
        dataset = datasets.Dataset.from_list([{"prompt": "p", "reference": dt.datetime(2020, 1, 2)}])
        (row,) = HfRows(dataset, items_fn=lambda row: {**row, "reference": row["reference"].date().isoformat()}).take(
            [0]
        )
        assert row.reference == "2020-01-02"

    def test_every_row_is_checked_at_once(self, datasets: Any) -> None:
        """Opening the source names every row on which the map fails, how, and no other row."""

        def prepare(row: dict[str, Any]) -> Any:
            if row["n"] == 1:
                return {"prompt": row["prompt"], "number": 1, "new": 2}
            if row["n"] == 3:
                raise ValueError("no three")
            return None if row["n"] == 2_000 else row

        dataset = datasets.Dataset.from_list([{"prompt": "p", "n": at} for at in range(2_100)])
        with pytest.raises(RewardContractError, match="numbers: 3 faults in the rows") as caught:
            HfRows(dataset, items_fn=prepare, title="numbers")
        rule = "it may rewrite values, and returns the row with the keys that it had"
        assert str(caught.value).splitlines()[1:] == [
            f"  row [1]: items_fn lost 'n' and added 'new', 'number'; {rule}",
            "  row [3]: items_fn raised ValueError: no three",
            "  row [2000]: items_fn has to return the row as a mapping, got None",
        ]
        assert isinstance(caught.value.__cause__, ValueError)

    def test_many_offenders_are_counted(self, datasets: Any) -> None:
        """The first twenty rows are named, the rest is counted."""
        dataset = datasets.Dataset.from_list([{"prompt": "p", "n": at} for at in range(50)])
        with pytest.raises(RewardContractError, match="50 faults in the rows") as caught:
            HfRows(dataset, items_fn=lambda row: {"prompt": row["n"]})
        lines = str(caught.value).splitlines()
        assert lines[20].startswith("  row [19]: items_fn lost 'n'")
        assert lines[21:] == ["  ... and 30 more"]

    def test_it_is_checked_whenever_a_row_is_taken(self, datasets: Any) -> None:
        """A map that behaved while the source was opened is held to its word later too."""
        calls: list[int] = []

        def moody(row: dict[str, Any]) -> dict[str, Any]:
            calls.append(row["n"])
            return row if len(calls) <= 6 else {"n": row["n"]}

        rows = HfRows(
            datasets.Dataset.from_list([{"n": at, "p": "p"} for at in range(2)]),
            ColumnMapping(prompt_column="p"),
            items_fn=moody,
        )
        # Twice each in the look for what is not deterministic, and once in the pass over all rows.
        assert calls == [0, 0, 1, 1, 0, 1]
        with pytest.raises(RewardContractError, match=r"2 faults in the rows:\n  row \[0\]: items_fn lost 'p'"):
            rows.take([1, 0])

    def test_a_map_that_draws_lots_is_caught(self, datasets: Any) -> None:
        """A map whose second call on a row gives something else is refused with the place of the difference."""
        calls: list[int] = []

        def lots(row: dict[str, Any]) -> dict[str, Any]:
            calls.append(1)
            return {**row, "a": {"n": len(calls)}}

        with pytest.raises(RewardContractError, match="3 faults") as caught:
            HfRows(datasets.Dataset.from_list(ROWS), COLUMNS, items_fn=lots)
        assert (
            "row [0]: items_fn has to be deterministic, but called twice 'a'.n is 1 (int) in the first and 2 (int) in "
            "the second"
        ) in str(caught.value)

    def test_it_fills_gaps_and_makes_them(self, datasets: Any) -> None:
        """What counts as missing is decided after the map."""
        dataset = datasets.Dataset.from_list([{"prompt": "p", "reference": each} for each in (None, "r")])
        swapped = {None: "r", "r": None}
        rows = HfRows(dataset, items_fn=lambda row: {**row, "reference": swapped[row["reference"]]})
        assert rows.gaps["reference"].first == [1]

    @settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.lists(st.sampled_from(["keep", "lose", "add", "raise", "none"]), min_size=1, max_size=12),
        st.sets(st.sampled_from(["x", "y", "z"]), min_size=1),
    )
    def test_exactly_the_offenders_are_named(self, datasets: Any, deeds: list[str], columns: set[str]) -> None:
        """Whatever a map does on which rows, those on which it broke the rule are named, and no others."""

        def prepare(row: dict[str, Any]) -> Any:
            match row["prompt"]:
                case "lose":
                    del row[min(columns)]
                case "add":
                    row["new"] = 1
                case "raise":
                    raise LookupError("here")
                case "none":
                    return None
            return row

        dataset = datasets.Dataset.from_list([{"prompt": deed, **dict.fromkeys(columns, 1)} for deed in deeds])
        broken = [at for at, deed in enumerate(deeds) if deed != "keep"]
        if not broken:
            assert len(HfRows(dataset, items_fn=prepare)) == len(deeds)
            return
        with pytest.raises(RewardContractError, match="in the rows") as caught:
            HfRows(dataset, items_fn=prepare)
        lines = str(caught.value).splitlines()[1:]
        assert [line.split(":")[0] for line in lines] == [f"  row [{at}]" for at in broken]


def test_the_fingerprint_tells_maps_and_data_apart(datasets: Any) -> None:
    """Other rows or another map give another fingerprint, the same ones the same."""
    dataset = datasets.Dataset.from_list(ROWS)
    one = HfRows(dataset, COLUMNS).fingerprint
    assert one == HfRows(dataset, COLUMNS).fingerprint
    assert (
        len(
            {one, HfRows(dataset.select([0]), COLUMNS).fingerprint, HfRows(dataset, COLUMNS, items_fn=dict).fingerprint}
        )
        == 3
    )
