# SPDX-License-Identifier: Apache-2.0
"""Observations out of rows: canonical names, stable ids, minted groups, and what is refused."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from msgspec import UNSET

from posttrain.data.columns import ColumnMapping
from posttrain.data.env import Env
from posttrain.data.gaps import Gaps
from posttrain.data.jsonl import JsonlRows
from posttrain.data.row import RowSource, SourceRow
from posttrain.errors import RewardConfigError, RewardContractError

WriteRows: TypeAlias = Callable[..., Path]


class Table:
    """Rows in memory that know nothing of their gaps, as a source of the user's own may be."""

    def __init__(self, *rows: SourceRow, columns: ColumnMapping | None = None) -> None:
        self.columns = columns or ColumnMapping()
        self.column_names: Sequence[str] = ["prompt", "reference"]
        self.gaps: Mapping[str, Gaps] = {}
        self.fingerprint = "table"
        self.title = "table"
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, indices: Sequence[int]) -> list[SourceRow]:
        """The same objects each time."""
        return [self._rows[index] for index in indices]

    def place(self, index: int) -> str:
        """Letters, to show that the source's own names are used."""
        return f"row {'abcdefgh'[index]}"


def test_the_example_of_the_contract(write: WriteRows) -> None:
    """The customer's columns become prompt, opaque reference and row id; the values are untouched."""
    row = {
        "messages": [{"role": "user", "content": "Follow the supplied constraints."}],
        "reward_input": {"constraint_ids": ["customer_rule"], "arguments": {"count": 3}},
        "source_id": "stable-customer-row-id",
    }
    columns = ColumnMapping(prompt_column="messages", response_column="reward_input", row_id_column="source_id")
    (observation,) = Env(JsonlRows(write(row), columns), needs=("reference",)).probe()
    assert observation.prompt == row["messages"]
    assert observation.reference == row["reward_input"]
    assert observation.row_id == "stable-customer-row-id"
    assert observation.representations == {}


def test_a_row_without_an_id_column_has_a_digest(write: WriteRows) -> None:
    """The row id is then made of prompt and reference; a row without a reference has None for one."""
    env = Env(JsonlRows(write({"prompt": "p", "reference": 1}, {"prompt": "p"})))
    first, second = env.probe()
    assert first.row_id == hashlib.sha256(b'["p",1]').hexdigest()[:32]
    assert (second.reference, second.row_id) == (None, hashlib.sha256(b'["p",null]').hexdigest()[:32])


def test_group_ids_are_minted_by_place(write: WriteRows) -> None:
    """An occurrence is named by environment, seed, epoch and position; the row keeps its own id."""
    columns = ColumnMapping(row_id_column="id")
    rows = JsonlRows(write(*({"prompt": 0, "id": each} for each in "abc")), columns)
    batches = Env(rows, seed=5, shuffle=False, name="val").batches(2, 4, epochs=2)
    drawn = [[(each.id, each.row_id) for each in batch.observations] for batch in batches]
    assert drawn == [
        [("val-s5-e0-0", "a"), ("val-s5-e0-1", "b")],
        [("val-s5-e0-2", "c"), ("val-s5-e1-0", "a")],
        [("val-s5-e1-1", "b"), ("val-s5-e1-2", "c")],
    ]


def test_a_row_twice_in_a_batch_makes_two_groups(write: WriteRows) -> None:
    """A batch larger than the data draws rows again, as groups of their own that share no mutable value."""
    rows = JsonlRows(write({"prompt": ["p"]}))
    first, again = next(Env(rows).batches(2, 4)).observations
    assert first.id != again.id
    assert first.row_id == again.row_id
    first.prompt.append("changed")
    assert again.prompt == ["p"]


def test_without_a_number_of_epochs_there_is_no_end(write: WriteRows) -> None:
    """Every batch is full, and the stream goes on."""
    env = Env(JsonlRows(write(*({"prompt": at} for at in range(5)))))
    sizes = [len(batch.observations) for batch in islice(env.batches(3, 1), 10)]
    assert sizes == [3] * 10


def test_the_last_batch_may_be_smaller(write: WriteRows) -> None:
    """A number of epochs draws every row that often, and leaves none out for the sake of a full batch."""
    env = Env(JsonlRows(write(*({"prompt": at} for at in range(5)))), seed=3)
    batches = list(env.batches(4, 1, epochs=3))
    prompts = [each.prompt for batch in batches for each in batch.observations]
    assert [len(batch.observations) for batch in batches] == [4, 4, 4, 3]
    assert [sorted(prompts[at : at + 5]) for at in (0, 5, 10)] == [[0, 1, 2, 3, 4]] * 3


def test_declared_inputs_are_there_or_all_offenders_are_named(write: WriteRows) -> None:
    """Opening an environment names every row that lacks what the provider declared, and no other."""
    path = write(
        {"prompt": "p", "answer": 0},
        {"prompt": "p", "answer": None},
        {"prompt": None, "answer": ""},
        {"prompt": "p"},
        {"answer": False},
    )
    rows = JsonlRows(path, ColumnMapping(response_column="answer"))
    with pytest.raises(RewardContractError, match=r"rows\.jsonl: 4 faults in the rows") as caught:
        Env(rows, needs=["reference", "prompt"])
    assert str(caught.value).splitlines()[1:] == [
        "  row 2: column 'answer' is null: the provider needs a reference; write one, or leave the row out",
        "  row 3: column 'prompt' is null: there is nothing to roll out; write one, or leave the row out",
        "  row 4: has no column 'answer': the provider needs a reference; write one, or leave the row out",
        "  row 5: has no column 'prompt': there is nothing to roll out; write one, or leave the row out",
    ]


def test_what_is_not_declared_may_be_missing(write: WriteRows) -> None:
    """A reference that no provider needs may be null or missing in any row; falsy values are values."""
    env = Env(JsonlRows(write({"prompt": 0}, {"prompt": "", "reference": None}, {"prompt": [], "reference": 0})))
    assert [(each.prompt, each.reference) for each in env.probe()] == [(0, None), ("", None), ([], 0)]


def test_a_needed_column_in_no_row(write: WriteRows) -> None:
    """Where no row has a reference at all, the mapping is at fault, and the key to set is named."""
    rows = JsonlRows(write({"prompt": "p", "answer": 1}))
    with pytest.raises(
        RewardConfigError,
        match=r"a reference is needed, but there is no column 'reference' .* 'prompt', 'answer'; set rl\.data\.resp",
    ):
        Env(rows, needs=("reference",))


def test_many_gaps_are_counted(write: WriteRows) -> None:
    """The first twenty offenders are named, the rest is counted, over both inputs together."""
    rows = JsonlRows(write({"prompt": 1, "reference": 1}, *({"prompt": None, "reference": 2} for _ in range(50))))
    with pytest.raises(RewardContractError, match="50 faults in the rows") as caught:
        Env(rows)
    lines = str(caught.value).splitlines()
    assert lines[1].startswith("  row 2: ")
    assert lines[21:] == ["  ... and 30 more"]


class TestOtherSources:
    """What a source did not know, the environment finds when rows are drawn."""

    def test_presence(self) -> None:
        """Missing and null inputs of drawn rows are named all at once, in the source's words for its rows."""
        table = Table(SourceRow("p", None), SourceRow(None, 1), SourceRow(UNSET, UNSET), SourceRow("p", 1))
        env = Env(table, needs=("reference",), shuffle=False)
        with pytest.raises(RewardContractError, match="table: 3 faults") as caught:
            next(env.batches(4, 2))
        lines = str(caught.value).splitlines()[1:]
        assert [line[:8] for line in lines] == ["  row a:", "  row b:", "  row c:"]
        # The third lacks both.
        assert "has no column 'prompt': there is nothing to roll out" in lines[2]
        assert "has no column 'reference': the provider needs a reference" in lines[2]
        assert [each.prompt for each in next(env.batches(1, 2, start=_behind(env, 3))).observations] == ["p"]

    @pytest.mark.parametrize(
        ("value", "fault"),
        [
            ({"a": [1, float("nan")]}, r"reference\.a\[1\]: expected a finite number, got nan"),
            ({"a": {1, 2}}, r"reference\.a: expected a JSON type, got \{1, 2\} \(set\): write sorted\(value\)"),
            ({1: "a"}, r"reference: expected string keys, got the key 1 \(int\)"),
            (b"x", r"reference: expected a JSON type, got b'x' \(bytes\): write value\.decode\(\)"),
        ],
    )
    def test_declared_inputs_are_json(self, value: Any, fault: str) -> None:
        """A declared input that is no JSON value is refused with the place in it and the fix."""
        table = Table(SourceRow("p", 1), SourceRow("p", value))
        with pytest.raises(RewardContractError, match=rf"1 fault in the rows:\n  row b: .*{fault}"):
            Env(table, needs=("reference",)).check()

    def test_a_declared_prompt_is_json(self) -> None:
        """The prompt is held to the same rule when a provider reads it."""
        table = Table(SourceRow(object(), 1, "id"), columns=ColumnMapping(row_id_column="id"))
        with pytest.raises(RewardContractError, match="row a: column 'prompt' is not a JSON value"):
            Env(table, needs=("prompt",)).probe()

    def test_other_inputs_may_be_anything(self) -> None:
        """A prompt that only the policy sees may be any object, for example with an image in it, and is handed on."""
        image = object()
        table = Table(SourceRow(image, 1, "id"), columns=ColumnMapping(row_id_column="id"))
        (observation,) = Env(table, needs=("reference",)).probe()
        assert observation.prompt is image

    def test_an_id_needs_json_or_a_column(self) -> None:
        """Where no digest can be made and no id column is named, the key to set is named."""
        for odd in (object(), "\ud800", float("inf")):
            with pytest.raises(
                RewardContractError, match=r"no id can be made .*name an id column with rl\.data\.row_id"
            ):
                Env(Table(SourceRow("p", odd))).probe()

    def test_an_id_is_checked_when_drawn(self) -> None:
        """A value that is no id is refused, also from a source that did not look."""
        table = Table(SourceRow("p", 1, 1.5), columns=ColumnMapping(row_id_column="id"))
        with pytest.raises(RewardContractError, match=r"row a: 'id': expected a row's id, .* got 1.5 \(float\)"):
            Env(table).probe()

    def test_a_column_that_the_source_does_not_have(self) -> None:
        """Where the source says that it has no such column, the nearest name is guessed."""
        table = Table(SourceRow("p"), columns=ColumnMapping(response_column="refrence"))
        with pytest.raises(RewardContractError, match=r"row a: no column 'refrence' .*did you mean 'reference'\? set"):
            Env(table, needs=("reference",)).probe()

    def test_nothing_to_draw(self) -> None:
        """A source without rows is refused."""
        with pytest.raises(RewardConfigError, match="table has no rows"):
            Env(Table())

    def test_it_is_a_source(self) -> None:
        """The protocol asks for no more than this table has."""
        source: RowSource = Table(SourceRow("p"))
        assert len(Env(source)) == 1


def _behind(env: Env, position: int) -> Any:
    import msgspec

    return msgspec.structs.replace(env.start, position=position)


def test_representations_reach_the_observation(datasets: Any) -> None:
    """The unmapped columns of a Hugging Face row stand in `obs.representations`, those of no other row."""
    from posttrain.data.hf import HfRows

    dataset = datasets.Dataset.from_list([{"prompt": f"p{at}", "level": at, "source": {"a": [at]}} for at in range(4)])
    for observation in next(Env(HfRows(dataset), seed=1).batches(4, 2)).observations:
        at = int(observation.prompt[1:])
        assert observation.representations == {"level": at, "source": {"a": [at]}}


class TestProbe:
    """The look at the first rows that preflight takes."""

    def test_it_takes_the_first_rows_of_the_source(self, write: WriteRows) -> None:
        """Probing follows the source's order whatever the seed, and stops at the end."""
        env = Env(JsonlRows(write(*({"prompt": at} for at in range(10)))), seed=9)
        assert [(each.id, each.prompt) for each in env.probe(3)] == [(f"train-probe-{at}", at) for at in range(3)]
        assert len(env.probe()) == 8
        assert len(env.probe(100)) == 10

    def test_it_looks_at_no_other_rows(self) -> None:
        """A fault behind the probed rows is not its business; checking all rows finds it."""
        env = Env(Table(SourceRow("p", 1), SourceRow("p", {2})), needs=("reference",))
        assert len(env.probe(1)) == 1
        with pytest.raises(RewardContractError, match="row b"):
            env.probe(2)
        with pytest.raises(RewardContractError, match="row b"):
            env.check()

    def test_all_rows_may_be_fine(self, write: WriteRows) -> None:
        """Checking all rows passes over more than one stretch of them."""
        Env(JsonlRows(write(*({"prompt": at, "reference": at} for at in range(2500)))), needs=("reference",)).check()


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"needs": ("refrence",)}, r"needs: 'refrence' \(str\) is no canonical input; those are prompt, reference"),
        ({"seed": 1.5}, r"rl\.data\.seed: expected an int, got 1.5"),
        ({"seed": True}, r"rl\.data\.seed: expected an int, got True"),
    ],
)
def test_settings_that_mean_nothing(options: dict[str, Any], fault: str) -> None:
    """A need that does not exist and a seed that is no int are refused."""
    with pytest.raises(RewardConfigError, match=fault):
        Env(Table(SourceRow("p")), **options)


def test_numbers_that_mean_nothing() -> None:
    """Sizes below one, and what is no int, are refused at once and before anything is drawn."""
    wrong: Any = 2.0
    with pytest.raises(RewardConfigError, match="batches can't be drawn") as caught:
        Env(Table(SourceRow("p"))).batches(0, wrong, epochs=True)
    assert str(caught.value).splitlines()[1:] == [
        "  groups_per_batch: expected an int of at least 1, got 0 (int)",
        "  group_size: expected an int of at least 1, got 2.0 (float)",
        "  epochs: expected an int of at least 1, got True (bool)",
    ]
