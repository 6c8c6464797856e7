# SPDX-License-Identifier: Apache-2.0
"""What holds for every file: groups round-trip, shapes and formats agree, and a run may go on at any group."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from posttrain.errors import RewardContractError
from posttrain.frozen import strict_equal
from posttrain.rollouts.grouping import BY_GROUP_ID, Grouping, by_columns, consecutive
from posttrain.rollouts.source import START, Position, RolloutGroup, RolloutSource

Row: TypeAlias = dict[str, Any]


class Shown(NamedTuple):
    """A group as plain values."""

    group_id: str
    ordinal: int
    trajectories: list[tuple[str, str, Any, Any, str | None, Row]]


class Prompt(NamedTuple):
    """A group as a rollout made it."""

    group_id: str | None
    prompt: Any
    reference: Any
    completions: list[str | None]
    finish_reasons: list[str | None] | None


_scalars = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-2, 2) | st.text(max_size=3)
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)


@st.composite
def prompts(draw: st.DrawFn, *, size: int | None = None, ids: bool = True) -> list[Prompt]:
    """Groups with ids of their own, or without; each of 1 to 4 candidates, or all of `size`."""
    names = draw(st.lists(st.text(min_size=1, max_size=3).map(lambda text: f"id {text}"), unique=True, max_size=6))
    made = []
    for name in names:
        count = size or draw(st.integers(1, 4))
        completions = draw(st.lists(st.none() | st.text(max_size=5), min_size=count, max_size=count))
        reasons = draw(st.none() | st.lists(st.none() | st.just("length"), min_size=count, max_size=count))
        made.append(Prompt(name if ids else None, draw(_values), draw(_values), completions, reasons))
    return made


def candidate_rows(prompt: Prompt) -> list[Row]:
    """A row for each candidate."""
    rows: list[Row] = []
    for at, completion in enumerate(prompt.completions):
        row = {"completion": completion, "prompt": prompt.prompt, "reference": prompt.reference}
        if prompt.group_id is not None:
            row["group_id"] = prompt.group_id
        if prompt.finish_reasons is not None:
            row["finish_reason"] = prompt.finish_reasons[at]
        rows.append(row)
    return rows


def group_row(prompt: Prompt) -> Row:
    """One row for all candidates."""
    row = {"completions": prompt.completions, "prompt": prompt.prompt, "reference": prompt.reference}
    if prompt.group_id is not None:
        row["group_id"] = prompt.group_id
    if prompt.finish_reasons is not None:
        row["finish_reason"] = prompt.finish_reasons
    return row


def write(folder: Path, rows: list[Row], blanks: list[int] | None = None, name: str = "a.jsonl") -> Path:
    """The rows as a file, with blank lines before some of them."""
    lines = [json.dumps(row).encode() for row in rows]
    for at in sorted(blanks or [], reverse=True):
        lines.insert(min(at, len(lines)), b"")
    (folder / name).write_bytes(b"".join(line + b"\n" for line in lines))
    return folder / name


def shown(group: RolloutGroup) -> Shown:
    """A group's plain values; all of its trajectories carry its id."""
    assert all(each.group_id == each.obs.id == group.group_id for each in group.trajectories)
    return Shown(
        group.group_id,
        group.index,
        [
            (each.trajectory_id, each.group_id, each.obs.prompt, each.obs.reference, each.completion, each.policy_info)
            for each in group.trajectories
        ],
    )


def read(path: Path, grouping: Grouping = BY_GROUP_ID, start: Position = START) -> list[Shown]:
    """Every group from `start`."""
    return [shown(group) for group in RolloutSource(path, grouping=grouping).groups(start)]


def expected(made: list[Prompt]) -> list[Shown]:
    """What the groups are by the rules for minted ids."""
    return [
        Shown(
            group_id := prompt.group_id or f"group-{index}",
            index,
            [
                (
                    f"{group_id}/{at}",
                    group_id,
                    prompt.prompt,
                    prompt.reference,
                    completion,
                    {} if prompt.finish_reasons is None else {"finish_reason": prompt.finish_reasons[at]},
                )
                for at, completion in enumerate(prompt.completions)
            ],
        )
        for index, prompt in enumerate(made)
    ]


def same(left: list[Shown], right: list[Shown]) -> bool:
    """Whether they are the same to the type of each number."""
    return strict_equal([list(each) for each in left], [list(each) for each in right])


def known(made: list[Prompt]) -> list[Prompt]:
    """The same with a completion in front, so that no file begins with rows that have none."""
    return [Prompt("first", 0, 0, ["text"], None), *made]


@given(prompts(), st.data())
def test_groups_round_trip_in_any_mix_of_shapes(
    tmp_path_factory: pytest.TempPathFactory, made: list[Prompt], data: st.DataObject
) -> None:
    """Whatever rows a rollout's groups are written as, wherever blank lines stand, the same groups come back."""
    rows: list[Row] = []
    for prompt in made:
        rows += [group_row(prompt)] if data.draw(st.booleans()) else candidate_rows(prompt)
    blanks = data.draw(st.lists(st.integers(0, 12), max_size=4))
    assert same(read(write(tmp_path_factory.mktemp("mix"), rows, blanks)), expected(made))


@given(st.integers(1, 3).flatmap(lambda size: st.tuples(st.just(size), prompts(size=size, ids=False))))
def test_runs_and_whole_groups_agree(tmp_path_factory: pytest.TempPathFactory, sized: tuple[int, list[Prompt]]) -> None:
    """Rows in runs, and rows that hold those runs' groups, give the same groups with the same minted ids."""
    size, made = sized
    folder = tmp_path_factory.mktemp("runs")
    runs = write(folder, [row for prompt in made for row in candidate_rows(prompt)], name="runs.jsonl")
    whole = write(folder, [group_row(prompt) for prompt in made], name="whole.jsonl")
    assert same(read(runs, consecutive(size)), expected(made))
    assert same(read(whole), expected(made))


@given(prompts(ids=False), st.data())
def test_grouping_by_columns_agrees(
    tmp_path_factory: pytest.TempPathFactory, made: list[Prompt], data: st.DataObject
) -> None:
    """Rows that are grouped by a key of any JSON value, spelt in any order, give the same groups as whole rows."""
    keys = data.draw(st.lists(_values, min_size=len(made), max_size=len(made), unique_by=canonical))
    rows = []
    for key, prompt in zip(keys, made, strict=True):
        for at, row in enumerate(candidate_rows(prompt)):
            spelt = dict(reversed(key.items())) if isinstance(key, dict) and at % 2 else key
            rows.append({**row, "key": spelt})
    assert same(read(write(tmp_path_factory.mktemp("keys"), rows), by_columns("key")), expected(made))


def canonical(value: object) -> bytes:
    """A text that two JSON values share exactly when they are strictly equal."""
    return msgspec.json.encode(value, order="deterministic")


@given(_values, _values)
def test_canonical_text_is_strict_equality(left: object, right: object) -> None:
    """The text that rows are grouped by is equal for strictly equal values and for no others."""
    assert (canonical(left) == canonical(right)) == strict_equal(left, right)
    again = json.loads(json.dumps(left))
    assert canonical(left) == canonical(again)


@given(prompts(), st.data())
def test_a_run_may_go_on_at_any_group(
    tmp_path_factory: pytest.TempPathFactory, made: list[Prompt], data: st.DataObject
) -> None:
    """From the place behind any group exactly the other groups come, with the same ids, in every format."""
    made = [prompt._replace(group_id=None) if data.draw(st.booleans()) else prompt for prompt in known(made)]
    rows: list[Row] = []
    for prompt in made:
        whole = prompt.group_id is None or data.draw(st.booleans())
        rows += [group_row(prompt)] if whole else candidate_rows(prompt)
    folder = tmp_path_factory.mktemp("resume")
    path = write(folder, rows, data.draw(st.lists(st.integers(0, 12), max_size=4)))
    plain = path.read_bytes()
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(plain))
    (folder / "a.jsonl.zst").write_bytes(zstandard.compress(plain))
    places = [START, *(group.end for group in RolloutSource(path).groups())]
    done = data.draw(st.integers(0, len(made)))
    assert places[done].groups == done
    for suffix in ("", ".gz", ".zst"):
        assert same(read(folder / f"a.jsonl{suffix}", start=places[done]), expected(made)[done:])


@given(st.integers(1, 4), st.integers(0, 5), st.integers(0, 5))
def test_a_run_may_go_on_between_runs(
    tmp_path_factory: pytest.TempPathFactory, size: int, runs: int, done: int
) -> None:
    """Runs of rows go on in step behind any of them."""
    folder = tmp_path_factory.mktemp("runs")
    path = write(folder, [{"completion": str(at)} for at in range(size * runs)])
    whole = list(RolloutSource(path, grouping=consecutive(size)).groups())
    done = min(done, runs)
    start = whole[done - 1].end if done else START
    assert read(path, consecutive(size), start) == [shown(group) for group in whole[done:]]


class TestStartsElsewhere:
    """A place that is not one of this file."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        """Three groups of two rows; each row is 38 bytes long, its end included."""
        rows = [{"group_id": f"g{at // 2}", "completion": str(at)} for at in range(6)]
        path = write(tmp_path, rows)
        assert path.stat().st_size == 6 * 38
        return path

    @pytest.mark.parametrize(
        "start",
        [
            Position(offset=38, row=1, groups=1),
            Position(offset=76, row=2, groups=2),
            Position(offset=76, row=3, groups=1),
            Position(offset=75, row=2, groups=1),
            Position(offset=300, row=8, groups=4),
        ],
    )
    def test_refused(self, path: Path, start: Position) -> None:
        """A place inside a group, or with the wrong number of rows or groups before it, is refused."""
        with pytest.raises(RewardContractError, match=rf"group {start.groups - 1} does not end at row {start.row}"):
            next(RolloutSource(path).groups(start))

    def test_refused_when_an_earlier_row_is_bad_now(self, path: Path) -> None:
        """A row before the place that is at fault shows that the file has changed."""
        data = path.read_bytes()
        path.write_bytes(b"[" + data[1:])
        with pytest.raises(RewardContractError, match="have changed since; start over with --restart"):
            next(RolloutSource(path).groups(Position(offset=76, row=2, groups=1)))

    def test_refused_under_another_grouping(self, path: Path) -> None:
        """So does a place that another grouping gave."""
        with pytest.raises(RewardContractError, match="its columns or its grouping have changed since"):
            next(RolloutSource(path, grouping=consecutive(3)).groups(Position(offset=76, row=2, groups=1)))

    def test_the_end_of_the_file_is_a_place(self, path: Path) -> None:
        """Behind the last group nothing comes."""
        assert read(path, start=Position(offset=228, row=6, groups=3)) == []


def test_ids_before_the_start_are_known(tmp_path: Path) -> None:
    """A run that goes on refuses an id that was used before the place at which it went on."""
    row: Callable[..., Row] = lambda group_id, trajectory_id: {  # noqa: E731  # a row in short
        "group_id": group_id,
        "trajectory_id": trajectory_id,
        "completion": "a",
    }
    path = write(tmp_path, [row("g", "t"), row("h", "u"), row("i", "t"), row("g", "v")])
    first = next(RolloutSource(path).groups())
    with pytest.raises(RewardContractError, match="2 faults in the rows") as caught:
        list(RolloutSource(path).groups(first.end))
    assert caught.value.message.splitlines()[1:] == [
        "  row 3: trajectory id 't' stands in row 1 already; every candidate has an id of its own",
        (
            "  row 4: group 'g' began in row 1 and was complete; the rows of a group stand together: sort the file by "
            "'group_id', or give each group its own id"
        ),
    ]
