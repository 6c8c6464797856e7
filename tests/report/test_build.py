# SPDX-License-Identifier: Apache-2.0
"""The numbers of a report, worked out by hand."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from math import sqrt
from pathlib import Path
from typing import Any

import pytest

from posttrain.errors import RewardConfigError
from posttrain.report import build_report, open_scores
from posttrain.rewards import RewardWorker
from posttrain.rollouts.source import RolloutSource
from posttrain.runs.offline import score_file

Written = Callable[..., Path]
Rows = Callable[..., list[dict[str, Any]]]
Run = Callable[..., Path]

STAGE = {"weights": {"right": 1.0, "long": -0.5}, "estimator": "group_mean", "group_size": 2}


def _finals(right: list[float], long: list[float]) -> list[float]:
    return [a - b / 2 for a, b in zip(right, long, strict=True)]


@pytest.fixture
def two_steps(run: Run, rows: Rows, dropped: Rows) -> Path:
    """Two steps with a group with spread, one that cancels, one all right, one dropped."""

    def group(name: str, right: list[float], long: list[float], **more: Any) -> list[dict[str, Any]]:
        return rows(name, {"right": right, "long": long}, final=_finals(right, long), **more)

    told = {"finish_reason": "stop", "completion_token_count": 10}
    cut = {"finish_reason": "length", "completion_token_count": 20}
    return run(
        {
            1: [*group("a", [1.0, 0.0], [0.0, 0.0], **told), *dropped("b", 2, completion_token_count=10)],
            2: [*group("c", [1.0, 0.5], [1.0, 0.0], **cut), *group("d", [1.0, 1.0], [0.0, 0.0], **told)],
        },
        metrics=[{"step": step, "train/reward/final/mean": step / 4} for step in (1, 2, 3)],
        provenance={"stage": STAGE},
    )


def test_totals_by_hand(two_steps: Path) -> None:
    """Counts, moments and shares over all groups."""
    totals = build_report(open_scores(two_steps)).data["totals"]
    # Finals 1 0 | 0.5 0.5 | 1 1: mean 4/6; squares 1 + 0.25 + 0.25 + 1 + 1 = 3.5, variance 3.5/6 - 16/36 = 5/36.
    assert totals["mean"] == 4 / 6
    assert totals["std"] == pytest.approx(sqrt(5 / 36))
    assert (totals["low"], totals["high"]) == (0.0, 1.0)
    # Sample standard deviations: sqrt(1/2), 0, 0.
    assert totals["spread"] == pytest.approx(sqrt(0.5) / 3)
    assert (totals["groups"], totals["scoredGroups"], totals["candidates"]) == (4, 3, 8)
    assert (totals["zero"], totals["truncated"], totals["unknown"]) == (2, 2, 2)
    assert totals["dropped"] == [("judge: TimeoutError", 1)]


def test_terms_by_hand(two_steps: Path) -> None:
    """Means over all scored candidates and each step; all of the advantage comes from the one group with spread."""
    right, long = build_report(open_scores(two_steps)).data["terms"]
    assert (right["name"], right["weight"], right["mean"]) == ("right", 1.0, 4.5 / 6)
    assert (long["name"], long["weight"], long["mean"]) == ("long", -0.5, 1 / 6)
    assert (right["means"], long["means"]) == ([0.5, 3.5 / 4], [0.0, 1 / 4])
    assert (right["advantage"], long["advantage"]) == (1.0, 0.0)
    assert (right["shares"], long["shares"]) == ([1.0, None], [0.0, None])
    # About the means 4/6 and 4.5/6, the products of right 1 0 1 0.5 1 1 with the finals 1 0 0.5 0.5 1 1 sum to
    # 1 + 0.5 + 0.25 + 1 + 1 - 6 * (4/6) * (4.5/6) = 3.75 - 3 = 0.75; the variance's sum is 5/6.
    assert right["reward"] == pytest.approx(0.9)
    assert long["reward"] == pytest.approx(0.1)


def test_groups_without_spread_by_hand(two_steps: Path) -> None:
    """By reason and step; `right` is not only 0 or 1, so nothing is all right."""
    spread = build_report(open_scores(two_steps)).data["spread"]
    assert spread["reasons"] == ["all right", "all wrong", "terms cancel", "one value"]
    assert spread["counts"] == [[0, 0], [0, 0], [0, 1], [0, 1]]
    assert (spread["scored"], spread["dropped"], spread["verdicts"]) == ([1, 2], [1, 0], [])


def test_lengths_and_endings_by_hand(two_steps: Path) -> None:
    """Rewards by token count, of the scored candidates alone."""
    data = build_report(open_scores(two_steps)).data
    # Ten tokens: 1 0 1 1, mean 0.75, variance 3/16; twenty tokens: 0.5 0.5, both cut.
    assert data["lengths"]["bins"] == [
        [10.0, 11.0, 4, 0, 0.75, pytest.approx(sqrt(3 / 16))],
        [20.0, 21.0, 2, 2, 0.5, 0.0],
    ]
    assert (data["lengths"]["unit"], data["lengths"]["count"], data["lengths"]["of"]) == ("tokens", 6, 6)
    # No group has two lengths.
    assert data["lengths"]["correlation"] is None
    assert data["finish"] == {"truncated": [0.0, 0.5], "unknown": [0.5, 0.0]}


def test_rewards_over_steps_come_from_the_metrics_where_these_know_more(two_steps: Path) -> None:
    """Metrics hold three steps, rows were kept of two; a metric that was not recorded has no value."""
    reward = build_report(open_scores(two_steps)).data["reward"]
    assert (reward["steps"], reward["mean"], reward["std"]) == ([1, 2, 3], [0.25, 0.5, 0.75], [None] * 3)
    assert reward["bins"] == [[0.0, 0.0, 1], [0.5, 0.5, 2], [1.0, 1.0, 3]]
    assert reward["spread"] == [pytest.approx(sqrt(0.5)), 0.0]


def test_the_table_by_hand(two_steps: Path) -> None:
    """One line a group; a dropped group has no number, only its cause."""
    report = build_report(open_scores(two_steps))
    columns = report.data["table"]["columns"]
    assert columns["id"] == ["a", "b", "c", "d"]
    assert columns["step"] == [1, 1, 2, 2]
    assert columns["mean"] == [0.5, None, 0.5, 1.0]
    assert columns["std"] == [pytest.approx(sqrt(0.5)), None, 0.0, 0.0]
    assert columns["why"] == [None, None, "terms cancel", "one value"]
    assert columns["cut"] == [0, 0, 2, 0]
    assert columns["dropped"] == [None, "judge: TimeoutError", None, None]
    assert (report.data["table"]["partial"], report.candidates) == (False, 8)
    first, second = (json.loads(zlib.decompress(each.block)) for each in report.entries[:2])
    assert first["parts"] == {"right": [0.5, -0.5], "long": [0.0, 0.0]}
    assert (first["final"], first["advantage"], first["tokens"]) == ([1.0, 0.0], [0.5, -0.5], [10, 10])
    assert (second["final"], second["advantage"], second["terms"], second["parts"]) == (None, None, {}, None)


def test_correlation_inside_groups_by_hand(written: Written, rows: Rows) -> None:
    """Differences between groups do not enter it."""
    long, short = rows("a", {"x": [1.0, 0.0]}), rows("b", {"x": [8.0, 9.0]})
    # Lengths 10 20 with rewards 1 0, and 70 90 with 8 9: deviations -5 5, 0.5 -0.5 and -10 10, -0.5 0.5.
    for row, tokens in zip([*long, *short], (10, 20, 70, 90), strict=True):
        row["completion_token_count"] = tokens
    lengths = build_report(open_scores(written("s.jsonl", [*long, *short]))).data["lengths"]
    # Products: -5 and 10, so 5; squares: 50 + 200 = 250 and 0.5 + 0.5 = 1.
    assert lengths["correlation"] == pytest.approx(5 / sqrt(250))


def test_lengths_fall_back_to_characters(written: Written, rows: Rows) -> None:
    """Where no token was counted, the texts are measured."""
    path = written("s.jsonl", rows("a", {"x": [1.0, 0.0]}, texts=["four", "sixsix"]))
    lengths = build_report(open_scores(path)).data["lengths"]
    assert lengths["unit"] == "characters"
    assert [(low, count) for low, _, count, *_ in lengths["bins"]] == [(4.0, 1), (6.0, 1)]


def test_shares_are_withheld_where_weights_do_not_make_the_rewards(written: Written, rows: Rows) -> None:
    """Without recorded weights 1 is tried; what does not fit is said, and given weights mend it."""
    path = written("s.jsonl", rows("a", {"x": [1.0, 0.0]}, final=[0.25, 0.0]))
    report = build_report(open_scores(path)).data
    assert report["shares"] is not None
    assert (
        "weights, which are not recorded and taken as 1, do not make the final rewards of 1 groups" in report["shares"]
    )
    assert (report["terms"][0]["advantage"], report["terms"][0]["weight"]) == (None, None)
    given = build_report(open_scores(path), weights={"x": 0.25}).data
    assert (given["shares"], given["terms"][0]["advantage"], given["terms"][0]["weight"]) == (None, 1.0, 0.25)


def test_rewards_beyond_reach_leave_gaps_and_no_nan(written: Written, rows: Rows) -> None:
    """Every number of the page is finite or not there."""
    huge = 1.7e308
    path = written("s.jsonl", rows("a", {"x": [huge, -huge, 0.0]}, advantage=[huge, -huge, 0.0], texts=["a", "b", "c"]))
    report = build_report(open_scores(path))
    text = json.dumps(report.data, allow_nan=False)
    assert "NaN" not in text
    assert report.data["shares"] == "Some rewards are too large to be taken apart, so no shares are told."
    # The squares of the deviations are huge ** 2 twice, over three candidates.
    assert report.data["totals"]["std"] == pytest.approx(huge * sqrt(2 / 3))


def test_metrics_beside_a_scored_file_are_shown_if_they_are_its_own(written: Written, tmp_path: Path) -> None:
    """A folder's one metrics.json may belong to another file; then it is left out, and that is said."""
    for name, texts in (("one", ["x", ""]), ("two", ["", ""])):
        rollouts = written(f"{name}.r.jsonl", [{"group_id": "g", "completion": text} for text in texts])
        with RewardWorker(reward="nonempty", group_size=2) as worker:
            score_file(worker.stage, RolloutSource(rollouts), out=tmp_path / f"{name}.jsonl")
    own, other = (build_report(open_scores(tmp_path / f"{name}.jsonl")).data for name in ("two", "one"))
    assert [each["name"] for each in own["diagnostics"]] == ["nonempty/sample_count"]
    assert own["notes"] == [
        "The texts lie in the rollouts: give them with --rollouts to read prompts and completions here."
    ]
    assert other["diagnostics"] == []
    assert other["notes"][0].startswith("metrics.json beside the scores is another file's")


def test_held_out_metrics_stand_beside_those_of_training(run: Run, rows: Rows) -> None:
    """What validation measured is shown with the same metric of training, if there is one; diagnostics apart."""
    folder = run(
        {1: rows("a", {"x": [1.0]})},
        metrics=[
            {"step": 1, "train/reward/x/mean": 0.5, "train/only": 1.0, "train/reward_provider/p/calls": 4.0},
            {"step": 2, "train/reward/x/mean": 0.75, "val/reward/x/mean": 0.25, "val/pass_at_4": 0.5},
        ],
    )
    data = build_report(open_scores(folder)).data
    assert data["heldOut"] == [
        {"name": "reward/x/mean", "train": [[1, 2], [0.5, 0.75]], "val": [[2], [0.25]]},
        {"name": "pass_at_4", "train": [[], []], "val": [[2], [0.5]]},
    ]
    assert data["diagnostics"] == [{"name": "p/calls", "train": [[1], [4.0]], "val": [[], []]}]


def test_a_choice_of_groups_is_named_as_one(run: Run, rows: Rows) -> None:
    """The numbers count all groups, the table holds what fits, the slowest group among it."""
    steps = {step: [row for at in range(10) for row in rows(f"{step}-{at}", {"x": [0.0, 1.0]})] for step in (1, 2)}
    report = {"providers": {"p": {"seconds": 2.0, "slowest_seconds": 1.0, "slowest_group": "2-7"}}}
    built = build_report(open_scores(run(steps, state={"report": report})), table_candidates=6)
    table = built.data["table"]
    assert (table["offered"], table["partial"], built.candidates) == (20, True, 6)
    assert "2-7" in table["columns"]["id"]
    assert built.data["totals"]["groups"] == 20
    assert table["columns"]["step"] == sorted(table["columns"]["step"])


def test_nothing_to_report_is_a_set_up_error(run: Run, written: Written) -> None:
    """An empty file and a run that has just begun."""
    for path in (written("s.jsonl", ""), run(provenance={})):
        with pytest.raises(RewardConfigError, match="holds no scores and no metrics yet"):
            build_report(open_scores(path))


def test_a_run_that_keeps_no_rows_is_reported_from_its_metrics(run: Run) -> None:
    """Then there is no table."""
    data = build_report(open_scores(run(metrics=[{"step": 1, "train/reward/final/mean": 0.5}]))).data
    assert (data["reward"]["steps"], data["totals"]["mean"], data["table"]["columns"]["id"]) == ([1], None, [])
