# SPDX-License-Identifier: Apache-2.0
"""Order and resumption: what is drawn depends on seed, epoch and position alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.data.columns import ColumnMapping
from posttrain.data.env import Env
from posttrain.data.jsonl import JsonlRows
from posttrain.data.state import EnvState
from posttrain.errors import RewardConfigError
from posttrain.schema import Observation

WriteRows: TypeAlias = Callable[..., Path]

Drawn: TypeAlias = list[tuple[str, str | None, Any]]


def shown(observations: tuple[Observation, ...]) -> Drawn:
    """What tells observations apart."""
    return [(each.id, each.row_id, each.prompt) for each in observations]


@pytest.fixture(scope="module")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], JsonlRows]:
    """A source of so many rows, each with its number for a prompt."""
    folder = tmp_path_factory.mktemp("numbered")

    def make(count: int) -> JsonlRows:
        path = folder / f"{count}.jsonl"
        path.write_text("".join(json.dumps({"prompt": at}) + "\n" for at in range(count)))
        return JsonlRows(path)

    return make


@given(
    st.integers(1, 30),
    st.integers(1, 12),
    st.integers(-(10**9), 10**9),
    st.booleans(),
    st.one_of(st.none(), st.integers(1, 4)),
    st.data(),
)
def test_resuming_changes_nothing(
    numbered: Callable[[int], JsonlRows],
    count: int,
    groups: int,
    seed: int,
    shuffle: bool,
    epochs: int | None,
    data: st.DataObject,
) -> None:
    """A run that goes on from a saved state, in a new process as it were, draws what the first would have drawn."""
    whole = list(islice(Env(numbered(count), seed=seed, shuffle=shuffle).batches(groups, 2, epochs=epochs), 12))
    at = data.draw(st.integers(0, len(whole) - 1))
    saved = json.loads(json.dumps(whole[at].end.to_json()))
    again = Env(numbered(count), seed=seed, shuffle=shuffle)
    rest = list(islice(again.batches(groups, 2, epochs=epochs, start=EnvState.from_json(saved)), 11 - at))
    assert [shown(batch.observations) for batch in rest] == [shown(batch.observations) for batch in whole[at + 1 :]]
    assert [(batch.start, batch.end) for batch in rest] == [(batch.start, batch.end) for batch in whole[at + 1 :]]


@given(st.integers(1, 40), st.integers(1, 15), st.integers(1, 15), st.integers(), st.integers(1, 3))
def test_the_size_of_batches_changes_nothing(
    numbered: Callable[[int], JsonlRows], count: int, groups: int, others: int, seed: int, epochs: int
) -> None:
    """The stream of groups is the same however it is cut, and each epoch draws every row once."""
    env = Env(numbered(count), seed=seed)
    one, other = (
        [each for batch in env.batches(size, 2, epochs=epochs) for each in shown(batch.observations)]
        for size in (groups, others)
    )
    assert one == other
    for epoch in range(epochs):
        drawn = one[epoch * count : (epoch + 1) * count]
        assert sorted(prompt for _, _, prompt in drawn) == list(range(count))
    assert len({group_id for group_id, _, _ in one}) == len(one)


def test_epochs_and_seeds_have_orders_of_their_own(numbered: Callable[[int], JsonlRows]) -> None:
    """Each epoch of each seed shuffles anew; without shuffling each has the order of the source."""

    def epoch(seed: int, number: int, *, shuffle: bool = True) -> list[int]:
        batches = list(Env(numbered(50), seed=seed, shuffle=shuffle).batches(50, 1, epochs=number + 1))
        return [each.prompt for each in batches[number].observations]

    assert len({tuple(epoch(seed, number)) for seed in (0, 1) for number in (0, 1, 2)}) == 6
    assert epoch(0, 2) == epoch(0, 2)
    assert epoch(0, 0, shuffle=False) == epoch(3, 2, shuffle=False) == list(range(50))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.data())
def test_a_rows_id_is_its_own(
    tmp_path_factory: pytest.TempPathFactory, prompts: list[int], data: st.DataObject
) -> None:
    """A row's id does not change when rows are reordered, filtered or added, nor with seed, epoch or batch."""
    folder = tmp_path_factory.mktemp("ids")

    def ids(kept: list[int], name: str) -> dict[int, set[str | None]]:
        path = folder / name
        path.write_text("\n".join(json.dumps({"prompt": prompt, "other": name}) for prompt in kept))
        found: dict[int, set[str | None]] = {}
        for batch in Env(JsonlRows(path), seed=len(kept)).batches(5, 1, epochs=2):
            for each in batch.observations:
                found.setdefault(each.prompt, set()).add(each.row_id)
        return found

    whole = ids(prompts, "whole")
    assert all(len(each) == 1 for each in whole.values())
    assert len(set().union(*whole.values())) == len(whole)
    kept = data.draw(st.permutations(prompts)) + data.draw(st.lists(st.integers(10, 12)))
    kept = kept[data.draw(st.integers(0, len(kept) - 1)) :]
    assert {prompt: each for prompt, each in ids(kept, "some").items() if prompt < 10} == {
        prompt: whole[prompt] for prompt in kept if prompt < 10
    }


class TestOtherData:
    """A saved state is a place in the data that it came from."""

    def test_other_settings_are_all_named(self, numbered: Callable[[int], JsonlRows]) -> None:
        """Another number of rows, seed or shuffling is refused, with what it was and is."""
        state = next(Env(numbered(10), seed=1).batches(3, 2)).end
        with pytest.raises(RewardConfigError, match="resume with the same data and seed") as caught:
            Env(numbered(11), seed=2, shuffle=False).batches(3, 2, start=state)
        assert str(caught.value).splitlines()[1:] == [
            "  rl.data: rows was 10, now 11",
            "  rl.data: seed was 1, now 2",
            "  rl.data: shuffle was True, now False",
        ]

    def test_other_rows_are_noticed(self, write: WriteRows) -> None:
        """Where the row that was drawn last is another one now, the data have changed, also at the end of an epoch."""
        columns = ColumnMapping(row_id_column="id")

        def env(ids: str, name: str) -> Env:
            return Env(JsonlRows(write(*({"prompt": 1, "id": each} for each in ids), name=name), columns))

        batches = list(env("abcd", "old.jsonl").batches(2, 2, epochs=1))
        for batch in batches:
            list(env("abcd", "same.jsonl").batches(2, 2, epochs=2, start=batch.end))
            with pytest.raises(RewardConfigError, match=r"the row drawn last was '\w', but row \d is now '\w'"):
                env("badc", "new.jsonl").batches(2, 2, start=batch.end)

    def test_groups_may_change(self, numbered: Callable[[int], JsonlRows]) -> None:
        """Batch and group size are no property of the data, and may be other ones after a resume."""
        state = next(Env(numbered(10)).batches(3, 2)).end
        (batch,) = Env(numbered(10)).batches(100, 16, epochs=1, start=state)
        assert (len(batch.observations), batch.group_size) == (7, 16)

    def test_nothing_is_left(self, numbered: Callable[[int], JsonlRows]) -> None:
        """A state behind the last epoch gives no batch."""
        *_, last = Env(numbered(4)).batches(3, 2, epochs=2)
        assert list(Env(numbered(4)).batches(3, 2, epochs=2, start=last.end)) == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"epoch": "0"}, r"Expected `int`, got `str` - at `\$\.epoch`"),
        ({"more": 1}, "contains unknown field `more`"),
        ({"rows": None}, "Expected `int`, got `null`"),
        ({"epoch": -1}, "no row is drawn at"),
        ({"position": 10}, "no row is drawn at"),
        ({"position": -1}, "no row is drawn at"),
    ],
)
def test_a_record_that_is_no_state(change: dict[str, Any], fault: str) -> None:
    """A checkpoint that was edited or belongs to something else is refused."""
    record = {"epoch": 0, "position": 3, "rows": 10, "seed": 0, "shuffle": True, "last_row_id": "a", **change}
    with pytest.raises(RewardConfigError, match=rf"not a saved state of the data: .*{fault}"):
        EnvState.from_json(record)
