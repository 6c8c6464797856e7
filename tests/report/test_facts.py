# SPDX-License-Identifier: Apache-2.0
"""What lies beside scores."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.report.facts import Slowest, facts_of_file, facts_of_run
from posttrain.rewards import RewardWorker
from posttrain.rollouts.source import RolloutSource
from posttrain.runs.offline import score_file

Written = Callable[..., Path]
Run = Callable[..., Path]


def test_what_posttrain_score_wrote_is_read_back(written: Written, tmp_path: Path) -> None:
    """Weights, providers, the digest of the rollouts, columns and grouping are those of the scoring."""
    rollouts = written("r.jsonl", [{"group_id": "g", "completion": "x"}, {"group_id": "g", "completion": ""}])
    with RewardWorker(reward="nonempty", group_size=2, weights={"nonempty": 0.5}) as worker:
        score_file(worker.stage, RolloutSource(rollouts), out=tmp_path / "scored.jsonl")
    facts = facts_of_file(tmp_path / "scored.jsonl")
    assert facts.weights == {"nonempty": 0.5}
    assert facts.stage == worker.stage_identity.to_json()
    assert (facts.rollouts["name"], facts.grouping, facts.namespace) == ("r.jsonl", "group-id", "train")
    assert facts.columns["completion"] == "completion"
    # 1 and 0, weighted by a half: the mean of 0.5 and 0.
    assert facts.metrics["train/reward/final/mean"] == {0: 0.25}


def test_a_lone_file_has_no_facts(written: Written) -> None:
    """Nothing is assumed where nothing is recorded."""
    facts = facts_of_file(written("s.jsonl", []))
    assert (facts.weights, facts.stage, facts.rollouts, facts.metrics) == (None, {}, {}, {})


def test_metrics_over_steps_are_in_the_order_of_the_steps(run: Run) -> None:
    """A step that was written again after a resume counts with its last values; the time is no metric."""
    folder = run(
        metrics=[
            {"step": 2, "time": 9.0, "train/a": 1, "train/b": 2.0},
            {"step": 1, "time": 9.0, "train/a": 0.5},
            {"step": 2, "time": 9.0, "train/a": 3.0},
        ]
    )
    assert facts_of_run(folder).metrics == {"train/a": {1: 0.5, 2: 3.0}, "train/b": {2: 2.0}}


def test_a_last_line_that_was_cut_off_is_left_out_and_said(run: Run) -> None:
    """A crash in the middle of a write costs one line, and a note."""
    folder = run(metrics=[{"step": 1, "train/a": 1.0}])
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 2, "trai')
    facts = facts_of_run(folder)
    assert facts.metrics == {"train/a": {1: 1.0}}
    assert facts.notes == ("the last line of metrics.jsonl was cut off while it was written, and is left out",)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("[1]\n", "row 2"),
        ('{"train/a": 1.0}\n', "row 2: step: expected an int, got None"),
        ('{"step": 1.5}\n', "row 2: step: expected an int, got 1.5"),
        ('{"step": 2, "train/a": NaN}\n', "row 2"),
        ('{"step": 2, "train/a": "1"}\n', "in step 2, train/a: '1'"),
        ('{"step": 2, "train/a": true}\n', "in step 2, train/a: True"),
    ],
)
def test_metrics_that_are_none_are_refused(run: Run, line: str, fault: str) -> None:
    """Only finite numbers are metrics."""
    folder = run(metrics=[{"step": 1, "train/a": 1.0}])
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(line)
    with pytest.raises(RewardContractError, match=fault):
        facts_of_run(folder)


def test_the_slowest_groups_come_from_the_last_checkpoint(run: Run) -> None:
    """The slowest first; a provider without a timing is left out."""
    providers: dict[str, Any] = {
        "quick": {"seconds": 3.0, "slowest_seconds": 0.5, "slowest_group": "g1"},
        "slow": {"seconds": 90.0, "slowest_seconds": 30.0, "slowest_group": "g2"},
        "idle": {"sample_count": 0},
    }
    folder = run(state={"format": 1, "step": 3, "report": {"namespace": "train", "providers": providers}})
    assert facts_of_run(folder).slowest == (Slowest("slow", "g2", 30.0, 90.0), Slowest("quick", "g1", 0.5, 3.0))


def test_the_stage_of_a_run_is_the_present_one(run: Run) -> None:
    """What made the scores is the stage of the record, not one of its ancestors."""
    stage, old = {"weights": {"a": 2.0}, "estimator": "group_norm"}, {"weights": {"a": 1.0}, "estimator": "group_mean"}
    folder = run(provenance={"posttrain": "0.1.0", "stage": stage, "lineage": [{"stage": old}]})
    facts = facts_of_run(folder)
    assert (facts.stage, facts.weights, facts.version) == (stage, {"a": 2.0}, "0.1.0")


@pytest.mark.parametrize(("text", "fault"), [("{", "is damaged"), ("[]", "expected a JSON object, got")])
def test_a_damaged_record_is_a_set_up_error(run: Run, text: str, fault: str) -> None:
    """The file is named, and the report is not made of half a record."""
    folder = run(provenance={})
    (folder / "provenance.json").write_text(text)
    with pytest.raises(RewardConfigError, match=rf"provenance\.json.*{fault}"):
        facts_of_run(folder)


def test_identities_are_found_beside_compressed_and_parquet_files(written: Written) -> None:
    """The name without its suffixes leads to the record."""
    written("s.identity.json", json.dumps({"posttrain": "9", "stage": {"weights": {}, "estimator": "group_mean"}}))
    for name in ("s.jsonl", "s.jsonl.gz", "s.parquet"):
        assert facts_of_file(written(name, "")).version == "9"
