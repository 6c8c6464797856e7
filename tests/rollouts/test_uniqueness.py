# SPDX-License-Identifier: Apache-2.0
"""No id is used twice, and no digest that two ids share refuses a good file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from posttrain.errors import RewardContractError
from posttrain.rollouts.grouping import BY_GROUP_ID, Grouping, by_columns
from posttrain.rollouts.source import RolloutSource

WriteRows: TypeAlias = Callable[..., Path]


def faults(path: Path, grouping: Grouping = BY_GROUP_ID, bits: int = 64) -> list[str]:
    """The lines of the refusal, without the first."""
    with pytest.raises(RewardContractError, match="in the rows") as caught:
        list(RolloutSource(path, grouping=grouping, digest_bits=bits).groups())
    return caught.value.message.splitlines()[1:]


@pytest.mark.parametrize("bits", [64, 1])
@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            [
                {"group_id": "g", "trajectory_id": "t", "completion": "a"},
                {"group_id": "g", "trajectory_id": "t", "completion": "b"},
            ],
            ["  row 2: trajectory id 't' stands in row 1 already; every candidate has an id of its own"],
        ),
        (
            [{"group_id": "g", "trajectory_id": ["t", "u", "t"], "completions": ["a", "b", "c"]}],
            ["  row 1: trajectory id 't' stands in this same row already; every candidate has an id of its own"],
        ),
        (
            [
                {"group_id": "g", "trajectory_id": "h/0", "completion": "a"},
                {"group_id": "h", "completion": "b"},
            ],
            ["  row 2: trajectory id 'h/0' stands in row 1 already; every candidate has an id of its own"],
        ),
        (
            [
                {"group_id": "g", "completion": "a", "trajectory_id": "t"},
                {"group_id": "h", "completion": "b"},
                {"group_id": "g", "completion": "c", "trajectory_id": "u"},
            ],
            [
                (
                    "  row 3: group 'g' began in row 1 and was complete; the rows of a group stand together: sort the "
                    "file by 'group_id', or give each group its own id"
                )
            ],
        ),
        (
            [
                {"group_id": "group-1", "completion": "a", "trajectory_id": "t"},
                {"completions": ["b"], "trajectory_id": ["u"]},
            ],
            [
                (
                    "  row 2: group 'group-1' began in row 1 and was complete; the rows of a group stand together: "
                    "sort the file by 'group_id', or give each group its own id"
                )
            ],
        ),
        (
            [
                {"group_id": "g", "completion": "a", "trajectory_id": "t"},
                {"group_id": "g", "completions": ["b"], "trajectory_id": ["u"]},
            ],
            [
                (
                    "  row 2: group 'g' began in row 1 and was complete; the rows of a group stand together: sort the "
                    "file by 'group_id', or give each group its own id"
                )
            ],
        ),
    ],
    ids=["in a group", "in a row", "minted", "group", "minted group", "adjacent"],
)
def test_an_id_twice_is_refused(rows: WriteRows, lines: list[dict[str, Any]], expected: list[str], bits: int) -> None:
    """An id that stands twice is refused with both rows, minted or not, whatever the length of the digests."""
    assert faults(rows(*lines), bits=bits) == expected


def test_a_key_that_returns_is_refused(rows: WriteRows) -> None:
    """So is a key of columns that returns, in whatever spelling; a long one is cut."""
    long = "x" * 100
    path = rows(
        '{"q": {"a": 1, "b": 2}, "s": 1, "completion": "0"}',
        f'{{"q": "{long}", "s": 1, "completion": "1"}}',
        '{"q": {"b": 2, "a": 1}, "s": 1, "completion": "2"}',
        f'{{"q": "{long}", "s": 1, "completion": "3"}}',
    )
    # The key's text is cut after 57 characters, of which two open the list and the string.
    assert faults(path, by_columns(["q", "s"])) == [
        (
            '  row 3: group of [{"a":1,"b":2},1] began in row 1 and was complete; the rows of a group stand together: '
            "sort the file by 'q', 's', or group by a column that tells them apart"
        ),
        (
            f'  row 4: group of ["{"x" * 55}... began in row 2 and was complete; the rows of a group stand together: '
            "sort the file by 'q', 's', or group by a column that tells them apart"
        ),
    ]


@pytest.mark.parametrize("bits", [1, 2, 4])
@pytest.mark.parametrize("grouping", [BY_GROUP_ID, by_columns("key")], ids=["ids", "keys"])
def test_a_collision_refuses_nothing(rows: WriteRows, grouping: Grouping, bits: int) -> None:
    """With digests so short that nearly every id is suspected, a good file is read to its end."""
    path = rows(
        *[
            {"group_id": f"g{at // 2}", "key": at // 2, "completion": str(at), "trajectory_id": f"t{at}"}
            for at in range(40)
        ],
        {"group_id": "last", "key": "last", "completions": ["a", "b", "c"]},
    )
    groups = list(RolloutSource(path, grouping=grouping, digest_bits=bits).groups())
    assert [len(group.trajectories) for group in groups] == [2] * 20 + [3]


def test_a_collision_beside_faults_is_no_fault(rows: WriteRows) -> None:
    """Suspects behind a first fault are looked into as well, so that only true repetitions are listed."""
    path = rows(
        {"group_id": "a", "completion": 1},
        *[{"group_id": f"g{at}", "completion": str(at), "trajectory_id": f"t{at % 9}"} for at in range(10)],
    )
    assert faults(path, bits=1) == [
        "  row 1: column 'completion': expected a text or null, got 1 (int)",
        "  row 11: trajectory id 't0' stands in row 2 already; every candidate has an id of its own",
    ]


def test_a_file_that_changes_while_it_is_read(rows: WriteRows) -> None:
    """Where the second look does not find the id at all, the file is not the one that was read."""
    path = rows(*[{"group_id": f"g{at}", "completion": "x" * 100_000} for at in range(8)])
    groups = RolloutSource(path, digest_bits=1).groups()
    next(groups)
    rows({"group_id": "other", "completion": ""})
    with pytest.raises(RewardContractError, match=r"rollouts.jsonl changed while it was read"):
        list(groups)
