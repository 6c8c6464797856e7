# SPDX-License-Identifier: Apache-2.0
"""Every refusal of a row, with its words; and all of them at once."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.rollouts.assembly import MAX_CANDIDATES
from posttrain.rollouts.columns import RolloutColumns
from posttrain.rollouts.grouping import BY_GROUP_ID, Grouping, by_columns, consecutive
from posttrain.rollouts.source import RolloutSource

WriteRows: TypeAlias = Callable[..., Path]


def refusal(path: Path, grouping: Grouping = BY_GROUP_ID, needs: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """The ids of the groups that came before the refusal, and the lines of its message."""
    came: list[str] = []
    groups = RolloutSource(path, grouping=grouping, needs=needs).groups()
    with pytest.raises(RewardContractError, match="in the rows") as caught:
        # What came before the error stays in the list.
        came.extend(group.group_id for group in groups)
    return came, caught.value.message.splitlines()


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ({"completion": 4}, "column 'completion': expected a text or null, got 4 (int)"),
        (
            {"completion": ["a", "b"]},
            (
                "column 'completion': expected a text or null, got ['a', 'b'] (list); a row with the texts of a whole "
                "group has them in the column of --completions-column"
            ),
        ),
        (
            {"completion": "a", "trajectory_id": 7},
            (
                "column 'trajectory_id': expected a string that is not empty, or null, got 7 (int); ids are minted "
                "where the column is left out"
            ),
        ),
        (
            {"completion": "a", "trajectory_id": ""},
            (
                "column 'trajectory_id': expected a string that is not empty, or null, got '' (str); ids are minted "
                "where the column is left out"
            ),
        ),
        (
            {"completion": "a", "finish_reason": ["stop"]},
            "column 'finish_reason': expected a string or null, got ['stop'] (list)",
        ),
        (
            {"completion": "a", "completion_token_count": True},
            "column 'completion_token_count': expected an int of at least 0, or null, got True (bool)",
        ),
        (
            {"completion": "a", "completion_token_count": -1},
            "column 'completion_token_count': expected an int of at least 0, or null, got -1 (int)",
        ),
        (
            {"completion": "a", "completion_token_count": 7.0, "finish_reason": 1},
            (
                "column 'finish_reason': expected a string or null, got 1 (int); "
                "column 'completion_token_count': expected an int of at least 0, or null, got 7.0 (float)"
            ),
        ),
        ({"completions": "abc"}, "column 'completions': expected a list of texts, at least one, got 'abc' (str)"),
        ({"completions": []}, "column 'completions': expected a list of texts, at least one, got [] (list)"),
        (
            {"completions": ["a", 4, None, []]},
            (
                "column 'completions'[1]: expected a text or null, got 4 (int); "
                "column 'completions'[3]: expected a text or null, got [] (list)"
            ),
        ),
        (
            {"completions": ["a", "b"], "trajectory_id": "t"},
            "column 'trajectory_id': expected a list of 2, one item for each completion, got 't' (str)",
        ),
        (
            {"completions": ["a", "b"], "trajectory_id": ["t"]},
            "column 'trajectory_id': expected a list of 2, one item for each completion, got a list of 1",
        ),
        (
            {"completions": ["a", "b"], "trajectory_id": ["t", ""]},
            "column 'trajectory_id'[1]: expected a string that is not empty, or null, got '' (str)",
        ),
        (
            {"completions": ["a", "b"], "finish_reason": "stop"},
            "column 'finish_reason': expected a list of 2, one item for each completion, got 'stop' (str)",
        ),
        (
            {"completions": ["a", "b"], "finish_reason": [None, 1]},
            "column 'finish_reason'[1]: expected a string or null, got 1 (int)",
        ),
        (
            {"completions": ["a", "b"], "completion_token_count": [1, True]},
            "column 'completion_token_count'[1]: expected an int of at least 0, or null, got True (bool)",
        ),
        (
            {"completions": ["a"], "completion": "a"},
            "has both 'completion' and 'completions', so that it is open which counts; keep one",
        ),
        (
            {"response": "a"},
            (
                "no column 'completion': the row has 'group_id', 'response'; "
                "set --completion-column or --completions-column"
            ),
        ),
    ],
)
def test_a_wrong_row(rows: WriteRows, row: dict[str, Any], fault: str) -> None:
    """A row whose columns have the wrong type or shape is refused with the column, what was expected and what came."""
    came, (head, line) = refusal(rows({"group_id": "g", **row}))
    assert came == []
    assert head == "rollouts.jsonl: 1 fault in the rows:"
    assert line == f"  row 1: {fault}"


def test_a_column_of_completions_counts_as_known(rows: WriteRows) -> None:
    """Once any row had a completion, of either shape, a row without one is no sign of a wrong column name."""
    path = rows({"completions": ["a"]}, {"group_id": "g", "answer": "b"})
    assert [group.trajectories[0].completion for group in RolloutSource(path).groups()] == ["a", None]


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (
            {"completion": "a", "group": "g"},
            (
                "no column 'group_id': the row has 'completion', 'group'; did you mean 'group'? set --group-id-column, "
                "or --group-by COL,... or --group-by consecutive:N for rows without group ids"
            ),
        ),
        (
            {"completion": "a", "group_id": None},
            (
                "column 'group_id': expected a group id, got null; set --group-id-column, or --group-by COL,... or "
                "--group-by consecutive:N for rows without group ids"
            ),
        ),
        (
            {"completion": "a", "group_id": 3},
            (
                "column 'group_id': expected a string that is not empty, got 3 (int); write ids as strings, or group "
                "by the column as it is with --group-by group_id"
            ),
        ),
        (
            {"completions": ["a"], "group_id": ""},
            (
                "column 'group_id': expected a string that is not empty, got '' (str); write ids as strings, or group "
                "by the column as it is with --group-by group_id"
            ),
        ),
    ],
)
def test_a_row_without_a_group(rows: WriteRows, row: dict[str, Any], fault: str) -> None:
    """A candidate without a group id is refused, and so is an id that is no string."""
    assert refusal(rows(row))[1][1] == f"  row 1: {fault}"


def test_faults_of_group_and_candidate_come_together(rows: WriteRows) -> None:
    """A row that belongs to no group and is wrong beside that is one line with both."""
    _, (_, line) = refusal(rows({"completion": 4, "group_id": 3}))
    assert "expected a string that is not empty, got 3 (int)" in line
    assert "expected a text or null, got 4 (int)" in line


def test_needed_columns(rows: WriteRows) -> None:
    """A column that the reward needs has to be in each row; the others may be missing, and null is a value."""
    path = rows(
        {"group_id": "g", "completion": "a", "prompts": "p", "reference": None},
        {"group_id": "g", "completion": "a", "prompt": "p"},
    )
    _, lines = refusal(path, needs=["prompt", "reference"])
    assert lines[1:] == [
        (
            "  row 1: no column 'prompt': the row has 'group_id', 'completion', 'prompts', 'reference'; did you mean "
            "'prompts'? set --prompt-column"
        ),
        "  row 2: no column 'reference': the row has 'group_id', 'completion', 'prompt'; set --reference-column",
    ]
    assert len(list(RolloutSource(path).groups())) == 1


def test_column_names_that_are_no_text(rows: WriteRows) -> None:
    """A row with a name that is no UTF-8 is refused, though nobody reads that column."""
    _, lines = refusal(rows(b'{"group_id": "g", "bad \xff": 1, "worse": 1e999}'))
    assert "row 1: is not UTF-8 at byte 23" in lines[1]


def test_an_input_that_can_not_be_read(rows: WriteRows) -> None:
    """An error inside a prompt or a reference, which are decoded later than the row, names the row."""
    path = rows(
        {"group_id": "g", "completion": "a", "prompt": "p"},
        b'{"group_id": "g", "completion": "b", "prompt": "\xff"}',
        {"group_id": "h", "completion": "c"},
        '{"group_id": "h", "completion": "d", "reference": [1e999]}',
    )
    came, lines = refusal(path)
    assert came == []
    assert lines[1:] == [
        (
            '  row 2: is not UTF-8 at byte 48: \'n": "b", "prompt": "\N{REPLACEMENT CHARACTER}"}\'; '
            "convert the file to UTF-8"
        ),
        "  row 4: column 'reference' can't be read: Number out of range - at `$[0]`",
    ]


class TestOtherGroupings:
    """Refusals of rows that are grouped by columns or in runs."""

    def test_a_key_column_is_missing(self, rows: WriteRows) -> None:
        """A row without a column of --group-by belongs to no group."""
        path = rows({"question": "q", "completion": "a"}, {"questions": "q", "completion": "a"})
        assert refusal(path, by_columns(["question"]))[1][1:] == [
            (
                "  row 2: no column 'question': the row has 'questions', 'completion'; did you mean 'questions'? "
                "set --group-by"
            )
        ]

    def test_a_key_that_can_not_be_read(self, rows: WriteRows) -> None:
        """A value of a key column that is no JSON value after all is named."""
        path = rows('{"question": 1e999, "completion": "a"}')
        assert refusal(path, by_columns(["question"]))[1][1] == (
            "  row 1: a column of --group-by can't be read: Number out of range"
        )

    @pytest.mark.parametrize("name", ["completion", "completions", "trajectory_id", "finish_reason"])
    def test_by_a_column_of_candidates(self, name: str) -> None:
        """Grouping by what differs from candidate to candidate is refused before the file is opened."""
        with pytest.raises(RewardConfigError, match=f"--group-by {name}: that column belongs to a candidate"):
            RolloutSource("nowhere.jsonl", grouping=by_columns(["prompt", name]))

    def test_inputs_that_differ_in_a_run(self, rows: WriteRows) -> None:
        """Prompt and reference of a run have to be equal; the error names both rows and the first difference."""
        path = rows(
            {"completion": "a", "prompt": "p", "reference": {"n": [1, 2]}},
            {"completion": "b", "prompt": "p", "reference": {"n": [1, 2.0]}},
            {"completion": "c", "prompt": "q", "reference": {"n": [1, 2]}},
        )
        assert refusal(path, consecutive(3))[1][1:] == [
            (
                "  row 2: its 'reference' is not that of row 1, with which consecutive:3 makes it one group: "
                "reference.n[1] is 2 (int) in the first and 2.0 (float) in the second"
            ),
            (
                "  row 3: its 'prompt' is not that of row 1, with which consecutive:3 makes it one group: "
                "prompt is 'p' (str) in the first and 'q' (str) in the second"
            ),
        ]

    def test_inputs_that_differ_under_one_key(self, rows: WriteRows) -> None:
        """So have those of rows with the same key; null is a value that differs from others."""
        path = rows(
            {"id": 1, "completion": "a"},
            {"id": 1, "completion": "b", "reference": None},
            {"id": 1, "completion": "c", "reference": "r"},
        )
        assert refusal(path, by_columns(["id"]))[1][1:] == [
            (
                "  row 3: its 'reference' is not that of row 2, with which columns:[\"id\"] makes it one group: "
                "reference is None in the first and 'r' (str) in the second"
            )
        ]

    def test_a_run_that_the_file_ends(self, rows: WriteRows) -> None:
        """A file whose last run lacks rows is refused after its complete runs."""
        came, lines = refusal(rows(*[{"completion": str(at)} for at in range(5)]), consecutive(2))
        assert came == ["group-0", "group-1"]
        assert lines[1:] == ["  row 5: the file ends, and the last run has only 1 of its 2 rows"]

    def test_a_run_that_a_whole_group_ends(self, rows: WriteRows) -> None:
        """A row with a whole group may stand between two runs, not inside one."""
        path = rows({"completion": "a"}, {"completions": ["b"]}, {"completion": "c"}, {"completion": "d"})
        assert refusal(path, consecutive(2))[1][1:] == [
            "  row 2: this row holds a whole group, and the last run has only 1 of its 2 rows"
        ]

    def test_an_unreadable_row_keeps_the_runs_in_step(self, rows: WriteRows) -> None:
        """A row that can't be read counts as part of its run, so that no second fault comes of it."""
        path = rows(
            {"completion": "a", "prompt": "p"},
            "{",
            {"completion": "c", "prompt": "q"},
            {"completion": "d", "prompt": "q"},
        )
        assert len(refusal(path, consecutive(2))[1]) == 2
        assert len(refusal(rows("{", {"completion": "c"}, {"completions": ["d"]}), consecutive(2))[1]) == 2


class TestAllAtOnce:
    """One error for the whole file."""

    def test_groups_before_the_first_fault_come(self, rows: WriteRows, group: Callable[..., list[Any]]) -> None:
        """What is good before the first fault is given, nothing behind it, and every fault is named in its order."""
        path = rows(
            *group("a", "12"),
            *group("b", "12"),
            *group("c", "1"),
            {"group_id": "c", "completion": 2},
            *group("d", "12"),
            "{",
            *group("e", "1", trajectory_id="b/0"),
            *group("a", "3", trajectory_id="t"),
        )
        came, lines = refusal(path)
        assert came == ["a", "b"]
        assert lines == [
            "rollouts.jsonl: 4 faults in the rows:",
            "  row 6: column 'completion': expected a text or null, got 2 (int)",
            (
                "  row 9: is no complete JSON: it ends early; was the file cut off? The file has one JSON object per "
                "line, with no bare line break in a text"
            ),
            "  row 10: trajectory id 'b/0' stands in row 3 already; every candidate has an id of its own",
            (
                "  row 11: group 'a' began in row 1 and was complete; the rows of a group stand together: sort the "
                "file by 'group_id', or give each group its own id"
            ),
        ]

    def test_twenty_are_listed(self, rows: WriteRows) -> None:
        """Of many faults the first twenty are listed and all are counted, of whatever kind."""
        path = rows(
            *[{"group_id": f"g{at}", "completion": at} for at in range(15)],
            *[{"group_id": f"h{at}", "completion": "a", "trajectory_id": "t"} for at in range(12)],
        )
        _, lines = refusal(path)
        # The first use of the id is fine, the other eleven are not.
        assert lines[0] == "rollouts.jsonl: 26 faults in the rows:"
        assert [line.split(":")[0] for line in lines[1:21]] == [
            f"  row {row}" for row in [*range(1, 16), 17, 18, 19, 20, 21]
        ]
        assert lines[21:] == ["  ... and 6 more"]

    def test_a_cut_off_file_ends_the_scan(self, tmp_path: Path) -> None:
        """The fault of the file itself is named beside those of its rows."""
        import gzip

        whole = gzip.compress(b'{"group_id": "g", "completion": 1}\n{"group_id": "g"}\n')
        (tmp_path / "a.jsonl.gz").write_bytes(whole[:-1])
        _, lines = refusal(tmp_path / "a.jsonl.gz")
        assert [line[:22] for line in lines[1:]] == ["  row 1: column 'compl", "  row 3: can't be read"]


def test_a_group_without_end_is_refused(tmp_path: Path) -> None:
    """A group id that is the same in every row is a wrong column and does not fill the memory."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"group_id": "train", "completion": ""}\n' * (MAX_CANDIDATES + 2))
    _, lines = refusal(path)
    assert lines == [
        "a.jsonl: 2 faults in the rows:",
        *(
            f"  row {MAX_CANDIDATES + at}: the group that begins in row 1 has more than 65,536 candidates; is it "
            "grouped by the right column?"
            for at in (1, 2)
        ),
    ]


def test_a_whole_group_too_large_is_refused(rows: WriteRows) -> None:
    """The same holds for one row with too many completions."""
    _, lines = refusal(rows({"completions": [""] * (MAX_CANDIDATES + 1)}))
    assert lines[1].startswith("  row 1: the group that begins in row 1 has more than 65,536 candidates")


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_a_file_that_can_not_be_opened(tmp_path: Path, suffix: str) -> None:
    """A missing file and a folder are named with the reason."""
    missing = tmp_path / f"a.jsonl{suffix}"
    with pytest.raises(RewardConfigError, match=rf"can't read .*/a.jsonl{suffix}: No such file or directory"):
        next(RolloutSource(missing).groups())
    missing.mkdir()
    with pytest.raises(RewardConfigError, match=rf"can't read .*/a.jsonl{suffix}: Is a directory"):
        next(RolloutSource(missing).groups())


def test_unknown_needs_are_refused() -> None:
    """Only prompt and reference can be needed."""
    with pytest.raises(RewardConfigError, match=r"needs: 'image' \(str\) is no input of a rollout"):
        RolloutSource("a.jsonl", needs=["prompt", "image"])


def test_flags_follow_the_columns(rows: WriteRows) -> None:
    """Errors speak of the columns by the names that they were given."""
    columns = RolloutColumns(completion="response", reference="answer")
    path = rows({"group_id": "g", "response": 1, "completion": "a"})
    with pytest.raises(
        RewardContractError, match=r"no column 'answer': .*column 'response': expected a text"
    ) as caught:
        list(RolloutSource(path, columns, needs=["reference"]).groups())
    assert "set --reference-column" in caught.value.message
