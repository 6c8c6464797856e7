# SPDX-License-Identifier: Apache-2.0
"""Groups out of runs and scored files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.report.group import UNTOLD
from posttrain.report.reading import open_scores

Written = Callable[..., Path]
Rows = Callable[..., list[dict[str, Any]]]


def test_groups_of_a_scored_file_come_in_its_order(written: Written, rows: Rows, dropped: Rows) -> None:
    """Each group is whole, with its terms, finals and advantages as columns."""
    scores = open_scores(written("s.jsonl", [*rows("b", {"x": [1.0, 0.0], "y": [0.5, 0.5]}), *dropped("a", 3)]))
    first, second = scores.groups()
    assert (first.group_id, first.terms) == ("b", {"x": [1.0, 0.0], "y": [0.5, 0.5]})
    assert (first.finals, first.advantages, first.dropped_because) == ([1.5, 0.5], [0.5, -0.5], None)
    assert (second.finals, second.terms, second.advantages) == ([], {}, None)
    assert second.dropped_because == "judge: TimeoutError"
    assert (scores.name, scores.is_run) == ("s.jsonl", False)


def test_a_dropped_group_without_a_cause_says_so(written: Written) -> None:
    """An empty reward is a dropped group, whatever else is missing."""
    row: dict[str, Any] = {"trajectory_id": "t", "group_id": "g", "reward": {}, "advantage": None}
    (group,) = open_scores(written("s.jsonl", [row])).groups()
    assert group.dropped_because == UNTOLD


def test_groups_of_a_run_may_interleave(run: Callable[..., Path], rows: Rows) -> None:
    """Within a step, rows are put together by group id; steps come in order, and ids may come back."""
    a, b = rows("a", {"x": [0.0, 1.0]}), rows("b", {"x": [2.0, 3.0]})
    scores = open_scores(run({20: [a[0], b[0], a[1], b[1]], 5: a}))
    assert [(each.key, each.finals) for each in scores.groups()] == [
        ((5, "a"), [0.0, 1.0]),
        ((20, "a"), [0.0, 1.0]),
        ((20, "b"), [2.0, 3.0]),
    ]
    assert (scores.name, scores.is_run) == ("run", True)


def test_other_files_of_a_run_are_no_steps(run: Callable[..., Path], rows: Rows) -> None:
    """Temporaries and notes beside the steps are left alone."""
    folder = run({1: rows("a", {"x": [1.0]})})
    for name in (".step-00000002.jsonl.tmp", "notes.txt", "step-00000003.csv"):
        (folder / "scored" / name).write_text("not a step")
    assert [group.step for group in open_scores(folder).groups()] == [1]


def test_a_step_that_stands_in_two_formats_is_refused(run: Callable[..., Path], rows: Rows) -> None:
    """Nobody can say which of them counts."""
    folder = run({1: rows("a", {"x": [1.0]})})
    (folder / "scored" / "step-00000001.parquet").write_text("")
    with pytest.raises(RewardConfigError, match=r"holds step-00000001 twice, as .*\.jsonl and .*\.parquet"):
        open_scores(folder)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    """So is a path where nothing is."""
    with pytest.raises(RewardConfigError, match=r"is no run: it holds none of metrics\.jsonl"):
        open_scores(tmp_path)
    with pytest.raises(RewardConfigError, match="is not there: name a run's directory or a scored file"):
        open_scores(tmp_path / "nothing.jsonl")


def test_a_group_that_comes_back_is_refused(written: Written, rows: Rows) -> None:
    """Two halves of a group would be two groups with other advantages; both rows are named."""
    a = rows("a", {"x": [0.0, 1.0]})
    path = written("s.jsonl", [a[0], *rows("b", {"x": [1.0]}), a[1]])
    with pytest.raises(RewardContractError, match="group 'a' began in row 1 and goes on in row 3"):
        list(open_scores(path).groups())


def test_an_id_that_is_used_twice_is_refused(written: Written, run: Callable[..., Path], rows: Rows) -> None:
    """In a file and in a step, with both rows."""
    found = [*rows("a", {"x": [0.0, 1.0]}), *rows("b", {"x": [1.0]})]
    found[2]["trajectory_id"] = "a/1"
    for path in (written("s.jsonl", found), run({1: found})):
        with pytest.raises(RewardContractError, match="trajectory 'a/1' stands in row 2 and again in row 3"):
            list(open_scores(path).groups())


def test_a_group_scored_in_part_is_refused(written: Written, rows: Rows, dropped: Rows) -> None:
    """A group is scored whole or not at all, with the same terms for all."""
    mixed = [*rows("a", {"x": [1.0]}), dropped("a", 3)[2]]
    with pytest.raises(RewardContractError, match=r"(?s)group 'a'.*'a/0' has x, final.*a/2.*scored whole, or not"):
        list(open_scores(written("s.jsonl", mixed)).groups())
    other = [rows("a", {"x": [1.0]})[0], rows("a", {"y": [1.0, 1.0]})[1]]
    with pytest.raises(RewardContractError, match="do not have the same terms"):
        list(open_scores(written("t.jsonl", other)).groups())
