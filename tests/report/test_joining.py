# SPDX-License-Identifier: Apache-2.0
"""The texts of a scored file are joined by trajectory id."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.report.joining import texts_of, with_texts
from posttrain.report.reading import open_scores
from posttrain.report.texts import rollouts_of
from posttrain.rewards import RewardWorker
from posttrain.rollouts.columns import RolloutColumns
from posttrain.rollouts.grouping import by_columns, consecutive
from posttrain.rollouts.source import RolloutSource
from posttrain.runs.offline import score_file

Written = Callable[..., Path]
Rows = Callable[..., list[dict[str, Any]]]


def _rollout(group_id: str, place: int, **more: Any) -> dict[str, Any]:
    text = f"text of {group_id}/{place}"
    row = {"group_id": group_id, "trajectory_id": f"{group_id}/{place}", "prompt": f"ask {group_id}"}
    return {**row, "reference": 1, "completion": text, **more}


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_each_candidate_gets_its_own_text_in_any_order(written: Written, rows: Rows, seed: int | None) -> None:
    """The order of the rollouts decides nothing; those that were not scored are passed over."""
    names = ["a", "b", "c", "d"]
    scored = written("s.jsonl", [row for name in names for row in rows(name, {"x": [0.0, 1.0]})])
    order = [*names, "unscored"]
    if seed is not None:
        random.Random(seed).shuffle(order)
    places = [1, 0] if seed else [0, 1]
    found = [
        _rollout(name, place, finish_reason="stop", completion_token_count=7) for name in order for place in places
    ]
    source = RolloutSource(written("r.jsonl", found))
    joined = list(with_texts(open_scores(scored).groups(), source))
    assert [group.group_id for group in joined] == names
    for group in joined:
        assert group.prompt == f"ask {group.group_id}"
        for place, each in enumerate(group.candidates):
            assert each.completion == f"text of {group.group_id}/{place}"
            assert (each.finish_reason, each.completion_token_count) == ("stop", 7)
            assert each.reward["final"] == place


def test_candidates_that_are_not_in_the_rollouts_are_named(written: Written, rows: Rows) -> None:
    """A text is never missing in silence."""
    scores = open_scores(written("s.jsonl", rows("a", {"x": [0.0, 1.0, 2.0]})))
    source = RolloutSource(written("r.jsonl", [_rollout("a", 1)]))
    with pytest.raises(RewardContractError, match=r"(?s)group 'a'.*does not hold.*a/0\n  a/2") as caught:
        list(with_texts(scores.groups(), source))
    assert "a/1" not in str(caught.value)


def test_texts_alone_are_found_by_id(written: Written) -> None:
    """What is asked for is found, and what is not there is named."""
    source = RolloutSource(written("r.jsonl", [_rollout("a", 0), _rollout("b", 0)]))
    assert {name: each.completion for name, each in texts_of(["b/0"], source).items()} == {"b/0": "text of b/0"}
    with pytest.raises(RewardContractError, match="does not hold these candidates:\n  c/0\nGive"):
        texts_of(["b/0", "c/0"], source)


def _scored(written: Written, tmp_path: Path, source: RolloutSource) -> Path:
    with RewardWorker(reward="nonempty", group_size=2) as worker:
        score_file(worker.stage, source, out=tmp_path / "s.jsonl")
    return tmp_path / "s.jsonl"


@pytest.mark.parametrize("grouping", [by_columns(["task", "prompt"]), consecutive(2)])
def test_rollouts_are_opened_as_they_were_scored(written: Written, tmp_path: Path, grouping: Any) -> None:
    """Columns and grouping are recorded with the scores, so that nobody has to give them again."""
    found = [{"task": "t", "prompt": "p", "answer": text} for text in ("one", "two")]
    rollouts = written("r.jsonl", found)
    path = _scored(written, tmp_path, RolloutSource(rollouts, RolloutColumns(completion="answer"), grouping))
    scores = open_scores(path)
    (group,) = with_texts(scores.groups(), rollouts_of(scores, rollouts))
    assert [each.completion for each in group.candidates] == ["one", "two"]


def test_other_rollouts_are_refused_unless_forced(written: Written, tmp_path: Path) -> None:
    """Minted ids fit any file, so the recorded digest decides."""
    rollouts = written("r.jsonl", [{"group_id": "g", "completion": text} for text in ("one", "two")])
    scores = open_scores(_scored(written, tmp_path, RolloutSource(rollouts)))
    other = written("other.jsonl", [{"group_id": "g", "completion": text} for text in ("three", "four")])
    with pytest.raises(RewardConfigError, match=r"other.jsonl is not what s.jsonl was scored from.*'r.jsonl'"):
        rollouts_of(scores, other)
    source = rollouts_of(scores, other, force=True)
    (group,) = with_texts(scores.groups(), source)
    assert [each.completion for each in group.candidates] == ["three", "four"]


def test_a_run_takes_no_rollouts(run: Callable[..., Path], rows: Rows, written: Written) -> None:
    """Its rows hold their texts."""
    scores = open_scores(run({1: rows("a", {"x": [1.0]})}))
    with pytest.raises(RewardConfigError, match="is a run, whose rows hold their texts: leave --rollouts out"):
        rollouts_of(scores, written("r.jsonl", []))


def test_rollouts_that_are_not_there_are_a_set_up_error(written: Written, tmp_path: Path) -> None:
    """Also where a digest has to be taken first."""
    rollouts = written("r.jsonl", [{"group_id": "g", "completion": text} for text in ("one", "two")])
    scores = open_scores(_scored(written, tmp_path, RolloutSource(rollouts)))
    with pytest.raises(RewardConfigError, match=r"gone\.jsonl can't be read"):
        rollouts_of(scores, tmp_path / "gone.jsonl")
