# SPDX-License-Identifier: Apache-2.0
"""Groups out of good files: both shapes of a row, every way of grouping, minted ids and shared observations."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pytest

from posttrain.rollouts.columns import RolloutColumns
from posttrain.rollouts.grouping import by_columns, consecutive
from posttrain.rollouts.source import START, Position, RolloutSource

WriteRows: TypeAlias = Callable[..., Path]


def ids(source: RolloutSource) -> list[tuple[str, list[str]]]:
    """Group id and trajectory ids of each group."""
    return [(group.group_id, [each.trajectory_id for each in group.trajectories]) for group in source.groups()]


def test_a_row_per_candidate(rows: WriteRows) -> None:
    """Contiguous rows with one group id are a group; each row becomes a trajectory with all that it recorded."""
    path = rows(
        {
            "group_id": "g",
            "trajectory_id": "t0",
            "prompt": [{"role": "user", "content": "2+2?"}],
            "completion": "4",
            "reference": {"answer": 4},
            "finish_reason": "stop",
            "completion_token_count": 7,
        },
        {"group_id": "g", "trajectory_id": "t1", "completion": ""},
        {"group_id": "h", "trajectory_id": "u0", "completion": "5"},
    )
    first, second = RolloutSource(path).groups()
    assert (first.group_id, first.index, first.first_row, first.last_row) == ("g", 0, 1, 2)
    assert (second.group_id, second.index, second.first_row, second.last_row) == ("h", 1, 3, 3)
    one, other = first.trajectories
    assert (one.trajectory_id, one.group_id, one.completion) == ("t0", "g", "4")
    assert one.policy_info == {"finish_reason": "stop", "completion_token_count": 7}
    assert (one.obs.id, one.obs.prompt, one.obs.reference) == (
        "g",
        [{"role": "user", "content": "2+2?"}],
        {"answer": 4},
    )
    assert (one.reward, one.advantage) == ({}, None)
    assert (other.trajectory_id, other.completion, other.policy_info) == ("t1", "", {})
    assert second.end == Position(offset=path.stat().st_size, row=3, groups=2)
    assert second.progress == path.stat().st_size


def test_columns_by_other_names(rows: WriteRows) -> None:
    """Each column is read under the name that it was given, and its canonical name means nothing then."""
    path = rows(
        {
            "gid": "g",
            "tid": "t",
            "question": "q",
            "response": "c",
            "answer": "r",
            "stop": "length",
            "tokens": 3,
            "group_id": 1,
            "prompt": "other",
            "completion": 2,
            "reference": "other",
        }
    )
    columns = RolloutColumns(
        group_id="gid",
        trajectory_id="tid",
        prompt="question",
        completion="response",
        completions="responses",
        reference="answer",
        finish_reason="stop",
        completion_token_count="tokens",  # noqa: S106  # tokens of a text, no secret
    )
    ((trajectory,),) = [group.trajectories for group in RolloutSource(path, columns).groups()]
    assert (trajectory.trajectory_id, trajectory.group_id, trajectory.completion) == ("t", "g", "c")
    assert (trajectory.obs.prompt, trajectory.obs.reference) == ("q", "r")
    assert trajectory.policy_info == {"finish_reason": "length", "completion_token_count": 3}


def test_a_row_per_group(rows: WriteRows) -> None:
    """A list of completions is a whole group, with the lists beside it dealt out and one observation for all."""
    path = rows(
        {
            "group_id": "g",
            "prompt": "p",
            "reference": "r",
            "completions": ["a", "b"],
            "trajectory_id": ["t0", "t1"],
            "finish_reason": ["length", None],
            "completion_token_count": [5, None],
        }
    )
    ((one, other),) = [group.trajectories for group in RolloutSource(path).groups()]
    assert [(each.trajectory_id, each.completion) for each in (one, other)] == [("t0", "a"), ("t1", "b")]
    assert one.policy_info == {"finish_reason": "length", "completion_token_count": 5}
    assert other.policy_info == {"finish_reason": None, "completion_token_count": None}
    assert one.obs is other.obs
    assert (one.obs.id, one.obs.prompt, one.obs.reference) == ("g", "p", "r")


def test_minted_ids_are_ordinals(rows: WriteRows) -> None:
    """A missing group id is the group's ordinal, a missing trajectory id the place in its group, both from 0."""
    path = rows(
        {"completions": ["a", "b"]},
        {"group_id": "g", "completion": "c", "trajectory_id": "t"},
        {"group_id": "g", "completion": "d"},
        {"group_id": None, "completions": ["e", "f"], "trajectory_id": ["u", None]},
        {"completions": ["g"], "trajectory_id": None},
    )
    assert ids(RolloutSource(path)) == [
        ("group-0", ["group-0/0", "group-0/1"]),
        ("g", ["t", "g/1"]),
        ("group-2", ["u", "group-2/1"]),
        ("group-3", ["group-3/0"]),
    ]


def test_one_shape_may_leave_the_others_column_null(rows: WriteRows) -> None:
    """Rows written from a table, which has both columns with one of them null, are read by the other one."""
    path = rows(
        {"group_id": "g", "completion": "a", "completions": None},
        {"group_id": "h", "completion": None, "completions": ["b", "c"]},
    )
    completions = [[each.completion for each in group.trajectories] for group in RolloutSource(path).groups()]
    assert completions == [["a"], ["b", "c"]]


@pytest.mark.parametrize(
    ("more", "policy_info"),
    [
        ({}, {}),
        ({"finish_reason": None}, {"finish_reason": None}),
        ({"completion_token_count": 0}, {"completion_token_count": 0}),
        (
            {"finish_reason": "", "completion_token_count": None},
            {"finish_reason": "", "completion_token_count": None},
        ),
    ],
)
def test_policy_info_has_what_the_row_has(rows: WriteRows, more: dict[str, Any], policy_info: dict[str, Any]) -> None:
    """What a row does not record is absent, what it records as null is None, in both shapes of a row."""
    lists = {name: [value] for name, value in more.items()}
    path = rows({"group_id": "g", "completion": "a", **more}, {"group_id": "h", "completions": ["a"], **lists})
    found = [group.trajectories[0].policy_info for group in RolloutSource(path).groups()]
    assert found == [policy_info, policy_info]


def test_null_beside_completions_holds_for_all(rows: WriteRows) -> None:
    """A null in place of a list says of every candidate that the rollout recorded none."""
    path = rows({"completions": ["a", "b"], "finish_reason": None, "completion_token_count": None})
    (group,) = RolloutSource(path).groups()
    assert [each.policy_info for each in group.trajectories] == [
        {"finish_reason": None, "completion_token_count": None},
        {"finish_reason": None, "completion_token_count": None},
    ]


def test_a_missing_completion_stays_missing(rows: WriteRows) -> None:
    """A completion that is null, or absent once the file has shown one, is None for the stage to refuse."""
    path = rows(
        {"group_id": "g", "completion": None},
        {"group_id": "g", "completion": "a"},
        {"group_id": "g"},
        {"group_id": "h", "completions": ["b", None]},
    )
    completions = [[each.completion for each in group.trajectories] for group in RolloutSource(path).groups()]
    assert completions == [[None, "a", None], ["b", None]]


def test_other_columns_are_ignored(rows: WriteRows) -> None:
    """What a row holds beside the columns that are read is not looked at, not even a number too large to read."""
    path = rows('{"logprobs": [[-0.5, 1e999]], "group_id": "g", "completion": "a", "meta": {"completion": 1}}')
    assert ids(RolloutSource(path)) == [("g", ["g/0"])]


class TestObservation:
    """Trajectories share one observation exactly when all rows have strictly equal inputs."""

    @pytest.mark.parametrize(
        "references",
        [
            ('"a"', '"a"'),
            ('{"x": 1, "y": [2.5, null]}', '{"y":[2.5,null],"x":1}'),
            ('"\\u00e9"', '"é"'),
            ("1.0", "1.00"),
        ],
    )
    def test_shared(self, rows: WriteRows, references: tuple[str, str]) -> None:
        """Inputs that are spelt differently but equal are one."""
        path = rows(*[f'{{"group_id": "g", "completion": "a", "reference": {each}}}' for each in references])
        (group,) = RolloutSource(path).groups()
        one, other = group.trajectories
        assert one.obs is other.obs

    @pytest.mark.parametrize("references", [("1", "1.0"), ("true", "1"), ('"a"', '"b"'), ("0.0", "-0.0"), ("[]", "{}")])
    def test_own(self, rows: WriteRows, references: tuple[str, str]) -> None:
        """Inputs that differ, in their type alone too, stay with their own row, under the group's one id."""
        path = rows(*[f'{{"group_id": "g", "completion": "a", "reference": {each}}}' for each in references])
        (group,) = RolloutSource(path).groups()
        found = [each.obs.reference for each in group.trajectories]
        expected = [msgspec.json.decode(each) for each in references]
        assert list(map(repr, found)) == list(map(repr, expected))
        assert [each.obs.id for each in group.trajectories] == ["g", "g"]
        assert group.trajectories[0].obs is not group.trajectories[1].obs

    def test_absent_is_not_present(self, rows: WriteRows) -> None:
        """A row without the prompt has an observation of its own, and absent and null read alike."""
        path = rows(
            {"group_id": "g", "completion": "a", "prompt": "p"},
            {"group_id": "g", "completion": "b"},
            {"group_id": "h", "completion": "c", "prompt": None},
            {"group_id": "h", "completion": "d"},
        )
        first, second = RolloutSource(path).groups()
        assert [each.obs.prompt for each in first.trajectories] == ["p", None]
        assert second.trajectories[0].obs is second.trajectories[1].obs


class TestGrouping:
    """Rows without group ids."""

    def test_by_columns(self, rows: WriteRows) -> None:
        """Contiguous rows with strictly equal keys are a group with a minted id; 1 and 1.0 are two keys."""
        path = rows(
            '{"group_id": 7, "prompt": {"a": 1, "b": 2}, "split": "x", "completion": "0"}',
            '{"group_id": 8, "prompt": {"b": 2, "a": 1}, "split": "x", "completion": "1"}',
            '{"group_id": 9, "prompt": {"a": 1.0, "b": 2}, "split": "x", "completion": "2"}',
            '{"prompt": {"a": 1.0, "b": 2}, "split": "y", "completion": "3"}',
            '{"prompt": {"a": 1.0, "b": 2}, "split": null, "completions": ["4", "5"]}',
        )
        assert ids(RolloutSource(path, grouping=by_columns(["prompt", "split"]))) == [
            ("group-0", ["group-0/0", "group-0/1"]),
            ("group-1", ["group-1/0"]),
            ("group-2", ["group-2/0"]),
            ("group-3", ["group-3/0", "group-3/1"]),
        ]

    def test_by_a_column_of_ids_that_are_no_strings(self, rows: WriteRows) -> None:
        """Numeric group ids can be grouped by as they are."""
        path = rows({"group_id": 1, "completion": "a"}, {"group_id": 1, "completion": "b"}, {"group_id": 2})
        assert ids(RolloutSource(path, grouping=by_columns("group_id"))) == [
            ("group-0", ["group-0/0", "group-0/1"]),
            ("group-1", ["group-1/0"]),
        ]

    def test_consecutive(self, rows: WriteRows) -> None:
        """Runs of rows are groups, blank lines not counted; a row with a whole group stands between two runs."""
        path = rows(
            {"completion": "0"},
            "",
            {"completion": "1", "trajectory_id": "t"},
            {"completions": ["2", "3", "4"]},
            {"completions": ["5"]},
            {"completion": "6"},
            {"completion": "7"},
        )
        assert ids(RolloutSource(path, grouping=consecutive(2))) == [
            ("group-0", ["group-0/0", "t"]),
            ("group-1", ["group-1/0", "group-1/1", "group-1/2"]),
            ("group-2", ["group-2/0"]),
            ("group-3", ["group-3/0", "group-3/1"]),
        ]

    def test_prompt_may_be_missing_in_some_rows(self, rows: WriteRows) -> None:
        """Prompt and reference have to be equal only where a row has them."""
        path = rows({"completion": "a", "prompt": "p"}, {"completion": "b"}, {"completion": "c", "prompt": "p"})
        ((first, second, third),) = [
            group.trajectories for group in RolloutSource(path, grouping=consecutive(3)).groups()
        ]
        assert [first.obs.prompt, second.obs.prompt, third.obs.prompt] == ["p", None, "p"]


def test_blank_lines_do_not_part_a_group(rows: WriteRows) -> None:
    """A blank line between two rows of a group is no end of it."""
    path = rows({"group_id": "g", "completion": "a"}, "", {"group_id": "g", "completion": "b"})
    (group,) = RolloutSource(path).groups()
    assert (len(group.trajectories), group.first_row, group.last_row) == (2, 1, 3)


def test_each_pass_begins_anew(rows: WriteRows) -> None:
    """The groups of one source can be read again, and two passes at once do not disturb each other."""
    path = rows(*[{"group_id": f"g{at}", "completion": str(at)} for at in range(4)])
    source = RolloutSource(path)
    assert ids(source) == ids(source)
    pairs = list(zip(source.groups(), source.groups(), strict=True))
    assert [one.group_id for one, _ in pairs] == [other.group_id for _, other in pairs] == ["g0", "g1", "g2", "g3"]


def test_a_group_comes_before_the_file_is_read_on(rows: WriteRows) -> None:
    """A group is given as soon as the next one begins: how far the file was read is far from its end by then."""
    path = rows(*[{"group_id": f"g{at}", "completion": "x" * 1000} for at in range(2000)])
    groups = RolloutSource(path).groups()
    first = next(groups)
    assert (first.group_id, first.end.row) == ("g0", 1)
    assert first.progress < path.stat().st_size / 2


def test_an_empty_file_has_no_groups(rows: WriteRows) -> None:
    """No row, no group, no error."""
    assert list(RolloutSource(rows()).groups()) == []


def test_a_position_survives_json(rows: WriteRows) -> None:
    """A position is stored with a checkpoint and comes back equal."""
    (group,) = RolloutSource(rows({"completions": ["a"]})).groups()
    stored = msgspec.json.encode(msgspec.to_builtins(group.end))
    assert msgspec.convert(msgspec.json.decode(stored), Position) == group.end
    assert Position(offset=0, row=0, groups=0) == START
