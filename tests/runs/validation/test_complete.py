# SPDX-License-Identifier: Apache-2.0
"""What a complete validation comes to: scores, report and metrics, by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import sqrt
from pathlib import Path
from typing import Any

import pytest

from posttrain.errors import RewardConfigError, RewardContractError, RewardUnavailableError
from posttrain.rollouts.journal import Journal
from posttrain.runs.offline import Progress, load_failed_request
from posttrain.runs.validation import HeldOutValidation
from posttrain.schema import Trajectory

Make = Callable[..., HeldOutValidation]
Rollouts = Callable[..., list[Trajectory]]
Files = Callable[[Path], dict[str, bytes]]

NAMES = ["metrics.json", "result.json", "rollouts.jsonl", "scores.identity.json", "scores.jsonl"]


def test_metrics_by_hand(held_out: Make, rollouts: Rollouts, tmp_path: Path) -> None:
    """The hierarchy of training under ``val/``, with best of n and pass@k beside it."""
    result = held_out().begin(rollouts("1 0", "0 0", "1 1"), 10, tmp_path / "v").complete()
    # Rewards 1, 0, 0, 0, 1, 1: mean 1/2, squares 3, population variance 3/6 - 1/4.
    assert result.metrics == {
        "val/reward/final/mean": 0.5,
        "val/reward/final/std": sqrt(0.25),
        "val/reward/final/min": 0.0,
        "val/reward/final/max": 1.0,
        "val/reward/task/mean": 0.5,
        "val/group/count": 3.0,
        "val/group/dropped_count": 0.0,
        "val/group/zero_spread_fraction": 2 / 3,
        "val/completion/truncated_fraction": 0.0,
        "val/completion/unknown_finish_fraction": 0.0,
        "val/reward_provider/rubric/sample_count": 6.0,
        # Bests 1, 0, 1.
        "val/reward/final/best_of_2": 2 / 3,
        # 1/2, 0, 1.
        "val/reward/task/pass_at_1": 0.5,
        # 1, 0, 1.
        "val/reward/task/pass_at_2": 2 / 3,
    }
    assert result.step == 10
    assert result.resumed_groups == 0
    assert result.report.namespace == "val"
    assert json.loads((tmp_path / "v/metrics.json").read_text()) == result.metrics


def test_scores_are_rows_of_the_stage(held_out: Make, rollouts: Rollouts, files_of: Files, tmp_path: Path) -> None:
    """A row per candidate, with the names of a scored file; nothing else is left in the folder."""
    held_out("rl.reward_stage.estimator=group_mean").begin(rollouts("1 0"), 1, tmp_path / "v").complete()
    files = files_of(tmp_path / "v")
    assert sorted(files) == NAMES
    assert [json.loads(line) for line in files["scores.jsonl"].splitlines()] == [
        {"trajectory_id": "g0/0", "group_id": "g0", "reward": {"task": 1.0, "final": 1.0}, "advantage": 0.5},
        {"trajectory_id": "g0/1", "group_id": "g0", "reward": {"task": 0.0, "final": 0.0}, "advantage": -0.5},
    ]


def test_an_estimator_over_the_batch_takes_the_whole_validation(
    held_out: Make, rollouts: Rollouts, files_of: Files, tmp_path: Path
) -> None:
    """Its spread is that of all rewards, which a second pass knows."""
    validation = held_out("rl.reward_stage.estimator=group_mean_batch_std")
    validation.begin(rollouts("1 0", "1 1"), 1, tmp_path / "v").complete()
    rows = [json.loads(line) for line in (tmp_path / "v/scores.jsonl").read_text().splitlines()]
    # Rewards 1, 0, 1, 1: population variance 3/4 - 9/16.
    up = 0.5 / (sqrt(3 / 16) + 1e-4)
    assert [row["advantage"] for row in rows] == [up, -up, 0.0, 0.0]
    assert sorted(files_of(tmp_path / "v")) == NAMES


def test_the_group_size_is_that_of_validation(held_out: Make, rollouts: Rollouts, tmp_path: Path) -> None:
    """``rl.validation.n_generation`` counts, not ``rl.group_size``; by default it is one."""
    validation = held_out("rl.validation.n_generation=null")
    result = validation.begin(rollouts("1", "0", "1", "1"), 1, tmp_path / "v").complete()
    assert validation.worker.stage.group_size == 1
    assert result.metrics["val/reward/final/best_of_1"] == 0.75
    assert result.metrics["val/reward/task/pass_at_1"] == 0.75
    assert not any(name.endswith("pass_at_2") for name in result.metrics)


def test_it_validates_with_what_it_trains_with_by_default(held_out: Make) -> None:
    """Without ``rl.validation.reward`` the providers are those of ``rl.reward``."""
    assert [each.provider for each in held_out().worker.identity] == ["rubric"]


def test_another_name_of_the_catalog_validates(held_out: Make, rollouts: Rollouts, judges: Any, tmp_path: Path) -> None:
    """``rl.validation.reward`` names one or several providers of the run's catalog, built-in ones too."""
    validation = held_out('rl.validation.reward=["half","nonempty"]', "rl.reward_stage.weights.task=3")
    result = validation.begin(rollouts("1 0"), 1, tmp_path / "v").complete()
    record = json.loads((tmp_path / "v/scores.identity.json").read_text())
    assert [(each["catalog"], each["provider"]) for each in record["providers"]] == [
        (judges.path, "half"),
        (judges.path, "nonempty"),
    ]
    # Halves 0.5 and 0, and a text each.
    assert result.metrics["val/reward/half/mean"] == 0.25
    assert result.metrics["val/reward/nonempty/pass_at_1"] == 1.0
    assert result.metrics["val/reward/final/best_of_2"] == 1.5


def test_a_complete_one_is_only_read(
    held_out: Make, rollouts: Rollouts, judges: Any, files_of: Files, tmp_path: Path
) -> None:
    """Completing again scores nothing and gives the same metrics and report, but for the timings."""
    validation = held_out()
    pending = validation.begin(rollouts("1 0", "1 1"), 1, tmp_path / "v")
    first = pending.complete()
    before, calls = files_of(tmp_path / "v"), list(judges.calls)
    for again in (pending.complete(), validation.resume(tmp_path / "v").complete()):
        assert again.metrics == first.metrics
        assert again.report.metrics() == first.report.metrics()
        assert again.report.final == first.report.final
        assert again.report.providers["rubric"].seconds == 0.0
        assert again.report.providers["rubric"].slowest_group is None
        assert again.resumed_groups == 2
    assert judges.calls == calls
    assert files_of(tmp_path / "v") == before


def test_a_complete_one_is_not_scored_again_for_a_journal_that_was_left(
    held_out: Make, rollouts: Rollouts, judges: Any, files_of: Files, tmp_path: Path
) -> None:
    """A second pass that was killed while it tidied up, or another process that came first, leaves an empty journal."""
    validation = held_out()
    pending = validation.begin(rollouts("1 0", "1 1"), 1, tmp_path / "v")
    first = pending.complete()
    before, calls = files_of(tmp_path / "v"), list(judges.calls)
    Journal.begin(tmp_path / "v/scores.jsonl", pending.record.to_json()).close()
    assert not pending.is_complete
    assert validation.resume(tmp_path / "v").complete().metrics == first.metrics
    assert judges.calls == calls
    assert files_of(tmp_path / "v") == before


def test_the_same_validation_twice_is_the_same_to_the_byte(
    held_out: Make, rollouts: Rollouts, files_of: Files, tmp_path: Path
) -> None:
    """No file holds a time or a path."""
    for name in ("one", "two"):
        held_out().begin(rollouts("1 0", "0.5 1"), 3, tmp_path / name).complete()
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")


def test_a_failure_keeps_what_was_scored(
    held_out: Make, rollouts: Rollouts, judges: Any, files_of: Files, tmp_path: Path
) -> None:
    """A broken result ends it with its names and the failing request beside it; what came before is not asked again."""
    validation = held_out()
    pending = validation.begin(rollouts("1 0", "1 1", "bad 0", "0 0"), 1, tmp_path / "v")
    with pytest.raises(RewardContractError, match="provider 'rubric', group 'g2'") as caught:
        pending.complete()
    assert not pending.is_complete
    kept = load_failed_request(tmp_path / "v/failed-request.json")
    assert kept.group_id == "g2"
    assert kept.catalog == judges.path
    assert any("failed-request.json" in note for note in caught.value.__notes__)
    assert "metrics.json" not in files_of(tmp_path / "v")
    judges.calls.clear()
    with pytest.raises(RewardContractError, match="group 'g2'"):
        validation.resume(tmp_path / "v").complete()
    # g1 is in a stretch of its own or with g2: the first stretch is one group, the second two.
    assert judges.calls[-1] == "g2"
    assert "g0" not in judges.calls


def test_a_service_that_is_down_fails_it(held_out: Make, rollouts: Rollouts, tmp_path: Path) -> None:
    """By default no group is dropped."""
    with pytest.raises(RewardUnavailableError, match=r"group 'g1'.*503 from the judge"):
        held_out().begin(rollouts("1 0", "down 0"), 1, tmp_path / "v").complete()


def test_too_many_dropped_groups_fail_it(held_out: Make, rollouts: Rollouts, tmp_path: Path) -> None:
    """The ceiling is held against the whole validation; no result is written."""
    validation = held_out("rl.reward_stage.on_unavailable=drop_group", "rl.reward_stage.max_dropped_fraction=0.4")
    pending = validation.begin(rollouts("1 0", "down 0"), 1, tmp_path / "v")
    with pytest.raises(RewardUnavailableError, match="1 of 2 groups could not be scored"):
        pending.complete()
    assert not pending.is_complete
    assert not (tmp_path / "v/result.json").exists()


def test_progress_is_told(held_out: Make, rollouts: Rollouts, tmp_path: Path) -> None:
    """After each stretch: bytes read, groups and candidates."""
    seen: list[Progress] = []
    pending = held_out().begin(rollouts("1 0", "1 1", "0 0"), 1, tmp_path / "v")
    pending.complete(seen.append)
    # Stretches of one group and of two.
    assert [(each.groups, each.candidates) for each in seen] == [(1, 2), (3, 6)]
    assert seen[-1].consumed == pending.record.rollouts.bytes


def test_who_watches_may_stop_it(held_out: Make, rollouts: Rollouts, judges: Any, tmp_path: Path) -> None:
    """What was scored when the watcher raised is not asked for again."""

    def stop(progress: Progress) -> None:
        raise KeyboardInterrupt("enough")

    validation = held_out()
    pending = validation.begin(rollouts("1 0", "1 1", "0 0"), 1, tmp_path / "v")
    with pytest.raises(KeyboardInterrupt, match="enough"):
        pending.complete(stop)
    assert judges.calls == ["g0"]
    result = validation.resume(tmp_path / "v").complete()
    assert judges.calls == ["g0", "g1", "g2"]
    assert result.resumed_groups == 1
    assert result.metrics["val/group/count"] == 3.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no result of a validation"),
        ("[]", "is no result of a validation"),
        ('{"format": 1}', "is no result of a validation"),
    ],
)
def test_a_damaged_result_is_refused(
    held_out: Make, rollouts: Rollouts, tmp_path: Path, text: str, message: str
) -> None:
    """A result that can't be read is an error, not an empty one."""
    validation = held_out()
    validation.begin(rollouts("1 0"), 1, tmp_path / "v").complete()
    (tmp_path / "v/result.json").write_text(text)
    with pytest.raises(RewardConfigError, match=message):
        validation.resume(tmp_path / "v").complete()


def test_the_result_of_another_validation_is_refused(held_out: Make, rollouts: Rollouts, tmp_path: Path) -> None:
    """A result that was copied in from elsewhere is not taken for this one's."""
    validation = held_out()
    for name, texts in (("one", "1 0"), ("two", "0 0")):
        validation.begin(rollouts(texts), 1, tmp_path / name).complete()
    (tmp_path / "one/result.json").write_bytes((tmp_path / "two/result.json").read_bytes())
    with pytest.raises(RewardConfigError, match="is the result of another validation"):
        validation.resume(tmp_path / "one").complete()


def test_a_null_is_no_number(held_out: Make, rollouts: Rollouts, tmp_path: Path) -> None:
    """A metric that somebody nulled is refused, not read as zero."""
    validation = held_out()
    validation.begin(rollouts("1 0"), 1, tmp_path / "v").complete()
    path = tmp_path / "v/result.json"
    record = json.loads(path.read_text())
    record["metrics"]["val/reward/final/mean"] = None
    path.write_text(json.dumps(record))
    with pytest.raises(RewardConfigError, match=r"Expected `float`, got `null`"):
        validation.resume(tmp_path / "v").complete()
