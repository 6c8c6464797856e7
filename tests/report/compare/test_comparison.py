# SPDX-License-Identifier: Apache-2.0
"""What two scorings differ in, worked out by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.report import open_scores
from posttrain.report.compare import Comparison, TermChange, compare_scores

Written = Callable[..., Path]
Rows = Callable[..., list[dict[str, Any]]]
Run = Callable[..., Path]


def _compare(a: Path, b: Path, **more: Any) -> Comparison:
    return compare_scores(open_scores(a), open_scores(b), **more)[0]


@pytest.fixture
def pair(written: Written, rows: Rows, dropped: Rows) -> tuple[Path, Path]:
    """Three groups: one whose ranking turns round, one that is not scored in B, one that only grows."""
    a = [
        *rows("turns", {"x": [1.0, 0.0, 0.5]}, advantage=[0.5, -0.5, 0.0]),
        *rows("lost", {"x": [1.0, 0.0]}),
        *rows("grows", {"x": [1.0, 0.0]}, advantage=[0.5, -0.5]),
    ]
    b = [
        *rows("turns", {"x": [0.0, 1.0, 0.5]}, advantage=[-0.5, 0.5, 0.25]),
        *dropped("lost", 2),
        *rows("grows", {"x": [3.0, 0.0]}, advantage=[1.5, -1.5]),
    ]
    return written("a.jsonl", a), written("b.jsonl", b)


def test_every_number_by_hand(pair: tuple[Path, Path]) -> None:
    """Over the five candidates that both scored; the dropped group is counted and in nothing else."""
    found = _compare(*pair)
    assert (found.groups, found.candidates, found.annotated) == (2, 5, 5)
    assert (found.not_scored_a, found.not_scored_b, found.only_a, found.only_b) == (0, 2, 0, 0)
    # Pairs of `turns`: three ordered on both sides, all three turned; of `grows` one, in its order.
    assert (found.rank_flips, found.ordered_pairs, found.groups_with_rank_flips) == (3, 4, 1)
    # In `turns` the best is another one; +0.5 to -0.5 and -0.5 to +0.5 are flips, 0 to 0.25 is none.
    assert (found.another_top, found.sign_flips) == (1, 2)
    assert found.same_rollouts is None
    # A: 1 0 0.5 1 0, mean 0.5; B: 0 1 0.5 3 0, mean 0.9; absolute changes 1 1 0 2 0: mean 0.8, three of five.
    expected = {"only": None, "candidates": 5, "mean_a": 0.5, "mean_b": 0.9, "change": 0.4, "changed": 0.6}
    for change in (found.changes[0], found.changes[2]):
        values = {name: getattr(change, name) for name in expected}
        assert values == {**expected, "change": pytest.approx(0.4), "mean_b": pytest.approx(0.9)}
        assert (change.size, change.largest) == (0.8, 2.0)
    # Advantages: changes 1 1 0.25 1 1, mean 4.25 / 5. Their means are 0 by construction and not told.
    assert found.changes[1] == TermChange(
        kind="advantage",
        name="advantage",
        only=None,
        candidates=5,
        mean_a=None,
        mean_b=None,
        change=None,
        changed=1.0,
        size=0.85,
        largest=1.0,
    )
    assert [(each.kind, each.name) for each in found.changes] == [
        ("final", "final"),
        ("advantage", "advantage"),
        ("term", "x"),
    ]


def test_the_groups_that_changed_most_come_first(pair: tuple[Path, Path]) -> None:
    """By the mean absolute change of the advantage: 1 for `grows`, 2.25 / 3 for `turns`."""
    (first, second) = _compare(*pair).largest
    assert (first.group_id, first.advantage_change, first.final_change) == ("grows", 1.0, 1.0)
    assert (first.rank_flips, first.sign_flips, first.candidates) == (0, 0, 2)
    assert (second.group_id, second.advantage_change) == ("turns", 0.75)
    assert second.final_change == pytest.approx(2 / 3)
    assert (second.rank_flips, second.sign_flips) == (3, 2)
    (alone,) = _compare(*pair, top=1).largest
    assert alone == first
    assert _compare(*pair, top=0).largest == []


def test_of_equal_changes_the_reward_decides_and_then_the_order(written: Written, rows: Rows) -> None:
    """Where advantages moved alike, the group whose rewards moved more comes first, then the earlier one."""
    names = {"p": 0.0, "q": 2.0, "r": 0.0}
    a = [row for name in names for row in rows(name, {"x": [1.0, 0.0]}, advantage=[0.5, -0.5])]
    b = [row for name, by in names.items() for row in rows(name, {"x": [1.0 + by, by]}, advantage=[0.5, -0.5])]
    found = _compare(written("a.jsonl", a), written("b.jsonl", b))
    assert [each.group_id for each in found.largest] == ["q", "p", "r"]


def test_terms_of_one_side_are_told_apart(written: Written, rows: Rows) -> None:
    """A term that the other side does not have has a mean there and no change; one called advantage is a term."""
    a = written("a.jsonl", rows("g", {"x": [1.0, 0.0], "advantage": [4.0, 2.0]}))
    b = written("b.jsonl", rows("g", {"x": [1.0, 0.0], "new": [1.0, 2.0]}))
    changes = {(each.kind, each.name): each for each in _compare(a, b).changes}
    assert list(changes) == [
        ("final", "final"),
        ("advantage", "advantage"),
        ("term", "x"),
        ("term", "advantage"),
        ("term", "new"),
    ]
    old, new = changes["term", "advantage"], changes["term", "new"]
    assert (old.only, old.mean_a, old.mean_b, old.change, old.changed, old.candidates) == (
        "A",
        3.0,
        None,
        None,
        None,
        2,
    )
    assert (new.only, new.mean_a, new.mean_b, new.size, new.largest) == ("B", None, 1.5, None, None)


def test_candidates_of_one_side_are_left_out_and_named(written: Written, rows: Rows) -> None:
    """Whole groups and single candidates that only one side has are in no number."""
    a = [*rows("both", {"x": [1.0, 0.0, 5.0]}), *rows("mine", {"x": [1.0]})]
    b = [*rows("yours", {"x": [1.0]}), *rows("both", {"x": [0.0, 1.0]})]
    found = _compare(written("a.jsonl", a), written("b.jsonl", b))
    assert (found.groups, found.candidates, found.rank_flips) == (1, 2, 1)
    assert (found.only_a, found.only_a_ids) == (2, ["both/2", "mine/0"])
    assert (found.only_b, found.only_b_ids) == (1, ["yours/0"])


def test_the_order_of_the_files_does_not_matter(written: Written, rows: Rows) -> None:
    """Groups and candidates are paired by their ids."""
    groups = [rows(f"g{at}", {"x": [float(at), 0.5, 1.0]}) for at in range(5)]
    a = written("a.jsonl", [row for group in groups for row in group])
    b = written("b.jsonl", [row for group in reversed(groups) for row in reversed(group)])
    found = _compare(a, b)
    assert (found.candidates, found.rank_flips, found.changes[0].changed, found.changes[0].size) == (15, 0, 0.0, 0.0)


def test_rewards_beyond_reach_leave_gaps(written: Written, rows: Rows) -> None:
    """A change that no float holds is not told, sorts first, and the JSON has no NaN."""
    huge = 1.7e308
    a = [*rows("small", {"x": [1.0, 0.0]}), *rows("huge", {"x": [huge, -huge]}, advantage=[huge, -huge])]
    b = [*rows("small", {"x": [0.0, 1.0]}), *rows("huge", {"x": [-huge, huge]}, advantage=[-huge, huge])]
    found = _compare(written("a.jsonl", a), written("b.jsonl", b))
    assert [each.group_id for each in found.largest] == ["huge", "small"]
    assert (found.largest[0].advantage_change, found.largest[0].sign_flips) == (None, 2)
    assert found.changes[0].largest is None


def _identity(written: Written, name: str, sha256: str, **stage: Any) -> None:
    recorded = {"weights": {"x": 1.0}, "estimator": "group_norm", **stage}
    rollouts = {"name": "r.jsonl", "bytes": 1, "sha256": sha256}
    written(f"{name}.identity.json", json.dumps({"posttrain": "1", "stage": recorded, "rollouts": rollouts}))


def test_scores_of_other_rollouts_are_refused_unless_forced(pair: tuple[Path, Path], written: Written) -> None:
    """The recorded digests decide; both files and digests are named."""
    _identity(written, "a", "aaaa")
    _identity(written, "b", "bbbb")
    with pytest.raises(
        RewardConfigError, match=r"(?s)different rollouts.*a\.jsonl: r.jsonl, aaaa.*b\.jsonl: r.jsonl, bbbb.*--force"
    ):
        _compare(*pair)
    assert _compare(*pair, force=True).same_rollouts is False


def test_what_made_them_and_differs_is_listed(pair: tuple[Path, Path], written: Written) -> None:
    """Recorded facts that are the same are left out; one that only one side has is there."""
    provider = {"provider": "judge", "revision": "1", "sha256": "f"}
    _identity(written, "a", "same", providers=[provider], group_size=2)
    _identity(written, "b", "same", providers=[{**provider, "revision": "2"}], weights={"x": 0.5}, group_size=2)
    found = _compare(*pair)
    assert found.same_rollouts is True
    assert found.differences == [["weights.x", "1.0", "0.5"], ["providers.judge.revision", "1", "2"]]


def test_other_completions_are_refused_unless_forced(run: Run, rows: Rows) -> None:
    """Ids can agree by chance; texts that are recorded on both sides do not lie."""
    a = run({1: rows("g", {"x": [1.0, 0.0]}, texts=["one", "two"])}, name="a")
    b = run({1: rows("g", {"x": [1.0, 0.0]}, texts=["one", "other"])}, name="b")
    with pytest.raises(
        RewardContractError, match=r"(?s)1 of 2 candidates have another completion in B:\n  g/1\n.*--force"
    ):
        _compare(a, b)
    assert _compare(a, b, force=True).other_texts == 1


def test_steps_of_runs_are_told_apart(run: Run, rows: Rows) -> None:
    """The same ids in another step are another group."""
    a = run({0: rows("g", {"x": [1.0, 0.0]}), 1: rows("g", {"x": [0.0, 1.0]})}, name="a")
    b = run({0: rows("g", {"x": [1.0, 0.0]}), 1: rows("g", {"x": [1.0, 0.0]})}, name="b")
    found = _compare(a, b)
    assert (found.groups, found.rank_flips) == (2, 1)
    assert [each.step for each in found.largest] == [1, 0]


def test_a_step_of_a_run_is_compared_with_a_file_that_was_scored_offline(
    run: Run, rows: Rows, written: Written
) -> None:
    """The file has no step, so steps are left aside; of a run with several steps it can't be said which is meant."""
    offline = written("offline.jsonl", rows("g", {"x": [0.0, 1.0]}))
    one = run({7: rows("g", {"x": [1.0, 0.0]})}, name="one")
    assert _compare(one, offline).rank_flips == 1
    two = run({7: rows("g", {"x": [1.0, 0.0]}), 8: rows("h", {"x": [1.0, 0.0]})}, name="two")
    with pytest.raises(RewardConfigError, match=r"holds several steps \(7, 8 among them\).*name the file of one step"):
        _compare(offline, two)


def test_groups_that_were_formed_otherwise_are_refused(written: Written, rows: Rows) -> None:
    """A candidate in another group has another baseline; each is named with both groups."""
    a = [*rows("a", {"x": [1.0]}), *rows("c", {"x": [1.0]})]
    b = [*rows("b", {"x": [1.0]}), *rows("c", {"x": [1.0]})]
    b[0]["trajectory_id"] = "a/0"
    with pytest.raises(RewardContractError, match="'a/0': 'a' in A, 'b' in B"):
        _compare(written("a.jsonl", a), written("b.jsonl", b))


def test_nothing_in_common_is_a_set_up_error(written: Written, rows: Rows, dropped: Rows) -> None:
    """Also where the common groups are not scored on one side."""
    a = written("a.jsonl", rows("a", {"x": [1.0]}))
    with pytest.raises(RewardConfigError, match="1 are only in A, 2 only in B"):
        _compare(a, written("b.jsonl", rows("b", {"x": [1.0, 2.0]})))
    with pytest.raises(RewardConfigError, match="no candidate in common that both scored: 0 are only in A"):
        _compare(a, written("c.jsonl", dropped("a", 1)))
