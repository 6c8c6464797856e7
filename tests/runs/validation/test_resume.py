# SPDX-License-Identifier: Apache-2.0
"""A pending validation goes on under the identity that it began under, and under no other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.runs.offline import Progress
from posttrain.runs.validation import HeldOutValidation, PendingValidation
from posttrain.schema import Trajectory

Make = Callable[..., HeldOutValidation]
Rollouts = Callable[..., list[Trajectory]]
Files = Callable[[Path], dict[str, bytes]]

# What decides a judge's verdicts, without the credential's value.
JUDGE: dict[str, Any] = {
    "prompt": "Is it right?",
    "model": "judge-2026-03-01",
    "scale": [0, 1],
    "retry": {"times": 3},
    "on_failure": "raise",
    "credential": "JUDGE_KEY",
}


def stopped_after_the_first(pending: PendingValidation) -> None:
    """Score the first group, and stop there as a kill would."""

    def stop(progress: Progress) -> None:
        raise KeyboardInterrupt("killed")

    with pytest.raises(KeyboardInterrupt, match="killed"):
        pending.complete(stop)


@pytest.fixture
def pending(held_out: Make, rollouts: Rollouts, judges: Any, tmp_path: Path) -> Path:
    """A validation of the judge at step 10: of three groups one is scored, two are pending."""
    judges.declare(semantic_identity=JUDGE)
    begun = held_out().begin(rollouts("1 0", "1 1", "0 0"), 10, tmp_path / "v")
    stopped_after_the_first(begun)
    assert judges.calls == ["g0"]
    judges.calls.clear()
    return tmp_path / "v"


def test_resume_01_another_identity(held_out: Make, judges: Any, pending: Path, files_of: Files) -> None:
    """Case resume-01: under another identity hash of the same name and revision nothing is scored and nothing read."""
    before = files_of(pending)
    judges.declare(semantic_identity={**JUDGE, "model": "judge-2026-09-01"})
    with pytest.raises(RewardConfigError, match=r'providers\[0\]\.sha256: recorded "[0-9a-f]{64}", now "[0-9a-f]{64}"'):
        held_out().resume(pending)
    assert judges.calls == []
    assert files_of(pending) == before


def test_resume_01_the_same_identity(held_out: Make, judges: Any, pending: Path) -> None:
    """Case resume-01: under the recorded identity exactly the two pending groups are scored, the first is not again."""
    result = held_out().resume(pending).complete()
    assert judges.calls == ["g1", "g2"]
    assert result.resumed_groups == 1
    # Rewards 1, 0, 1, 1, 0, 0.
    assert result.metrics["val/reward/final/mean"] == 0.5


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        (lambda record: record["stage"]["providers"][0].update(sha256=None), r"stage\.providers\[0\]\.sha256"),
        (lambda record: record["stage"]["providers"][0].pop("sha256"), r"stage\.providers\[0\]\.sha256"),
        (lambda record: record["stage"]["providers"][0].update(revision=""), r"stage\.providers\[0\]\.revision"),
        (lambda record: record["stage"]["providers"][0].update(provider=None), r"stage\.providers\[0\]\.provider"),
        (lambda record: record["stage"]["providers"][0].pop("catalog"), r"stage\.providers\[0\]\.catalog"),
        (lambda record: record["providers"][0].update(sha256=None), r"  providers\[0\]\.sha256"),
        (lambda record: record.update(providers=[]), "providers"),
        (lambda record: record.update(stage_sha256=None), "stage_sha256"),
        (lambda record: record.update(stage=None), "stage"),
        (lambda record: record.pop("stage"), "stage"),
        (lambda record: record["stage"].update(providers=[]), r"stage\.providers is missing"),
        (lambda record: record.update(stage=[1]), r"stage\.providers is missing"),
    ],
)
def test_resume_01_no_identity(
    held_out: Make, judges: Any, pending: Path, change: Callable[[dict[str, Any]], Any], missing: str
) -> None:
    """Case resume-01: a record that leaves open what scored is refused, also by the identity that is the right one."""
    path = pending / "scores.identity.json"
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))
    with pytest.raises(RewardConfigError, match=rf"(?s)scores\.identity\.json does not say.*{missing}"):
        held_out().resume(pending)
    assert judges.calls == []


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": "Is it quite right?"},
        {"model": "judge-2026-09-01"},
        {"scale": [0, 10]},
        {"scale": [0, 1.0]},
        {"retry": {"times": 4}},
        {"on_failure": "zero"},
        {"credential": "OTHER_KEY"},
    ],
)
def test_resume_01_what_changes_the_identity(held_out: Make, judges: Any, pending: Path, change: Any) -> None:
    """Case resume-01: prompt, model, scale, retry, failure policy and the name of the credential are identity."""
    judges.declare(semantic_identity={**JUDGE, **change})
    with pytest.raises(RewardConfigError, match="one validation has one reward"):
        held_out().resume(pending)


def test_resume_01_a_rotated_key(held_out: Make, judges: Any, pending: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case resume-01: another value of the same credential is the same identity, and stands in no file."""
    monkeypatch.setenv("JUDGE_KEY", "sk-rotated")
    judges.keys.clear()
    held_out().resume(pending).complete()
    assert judges.keys == ["sk-rotated"] * 2
    assert not any(b"sk-rotated" in each.read_bytes() for each in pending.iterdir())


def test_nothing_is_read_before_the_identity_is_known(held_out: Make, judges: Any, pending: Path) -> None:
    """Of a journal that is damaged nobody hears under another identity: it was not looked at."""
    (pending / ".scores.jsonl.journal").write_text("damaged")
    (pending / ".scores.jsonl.partial").write_text("damaged")
    judges.declare(semantic_identity=None)
    with pytest.raises(RewardConfigError, match="began as another one"):
        held_out().resume(pending)
    judges.declare(semantic_identity=JUDGE)
    with pytest.raises(RewardConfigError, match=r"\.scores\.jsonl\.journal is damaged"):
        held_out().resume(pending).complete()


@pytest.mark.parametrize(
    ("overrides", "lines"),
    [
        (
            ("rl.validation.reward=half",),
            (
                'providers[0].provider: recorded "rubric", now "half"',
                'providers[0].revision: recorded "3", now "1"',
                'terms.rubric: recorded ["task"], now null',
            ),
        ),
        (("rl.validation.n_generation=4",), ("n_generation: recorded 2, now 4", "group_size: recorded 2, now 4")),
        (("rl.reward_stage.weights.task=2",), ("weights.task: recorded 1.0, now 2.0",)),
        (("rl.reward_stage.estimator=group_mean",), ('estimator: recorded "group_norm", now "group_mean"',)),
        (
            ("rl.reward_stage.on_unavailable=drop_group",),
            ('on_unavailable: recorded "fail", now "drop_group"',),
        ),
        (("rl.reward_stage.max_dropped_fraction=0.2",), ("max_dropped_fraction: recorded 0.1, now 0.2",)),
        (
            ("rl.reward_catalog=null", "rl.reward=gsm8k"),
            ('providers[0].provider: recorded "rubric", now "gsm8k"', "providers[0].catalog: recorded "),
        ),
    ],
)
def test_every_other_field_is_refused_by_name(
    held_out: Make, judges: Any, pending: Path, overrides: tuple[str, ...], lines: tuple[str, ...]
) -> None:
    """Whatever decides a score is compared, and each difference told with both values."""
    with pytest.raises(RewardConfigError, match="one validation has one reward") as caught:
        held_out(*overrides).resume(pending)
    for line in lines:
        assert f"  {line}" in str(caught.value)
    assert judges.calls == []


def test_another_revision_is_refused(held_out: Make, judges: Any, pending: Path) -> None:
    """The revision is declared by the author and compared as such."""
    judges.declare(revision="4", semantic_identity=JUDGE)
    with pytest.raises(RewardConfigError, match=r'providers\[0\]\.revision: recorded "3", now "4"'):
        held_out().resume(pending)


def test_another_catalog_of_the_same_content_is_refused(held_out: Make, judges: Any, pending: Path) -> None:
    """The catalog's path is part of what is recorded."""
    name = judges.path.partition(":")[0]
    folder = pending.parent / "judges"
    (folder / "copied_judges.py").write_text((folder / f"{name}.py").read_text())
    with pytest.raises(RewardConfigError, match=r'providers\[0\]\.catalog: recorded .*, now "copied_judges:catalog"'):
        held_out("rl.reward_catalog=copied_judges:catalog").resume(pending)


def test_another_version_of_posttrain_is_refused(held_out: Make, pending: Path) -> None:
    """Its scorers may differ."""
    path = pending / "scores.identity.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "posttrain": "0.0.1"}))
    with pytest.raises(RewardConfigError, match=r'posttrain: recorded "0\.0\.1", now '):
        held_out().resume(pending)


def test_the_step_may_be_asked_for(held_out: Make, pending: Path) -> None:
    """A record of another step than the one that is meant is refused."""
    assert held_out().resume(pending, step=10).record.step == 10
    with pytest.raises(RewardConfigError, match="step: recorded 10, now 11"):
        held_out().resume(pending, step=11)


def test_rollouts_that_changed_are_refused(held_out: Make, judges: Any, pending: Path) -> None:
    """One byte of another text is enough."""
    path = pending / "rollouts.jsonl"
    path.write_text(path.read_text().replace('"completion":"1"', '"completion":"9"', 1))
    with pytest.raises(RewardConfigError, match=r"rollouts\.sha256: recorded [0-9a-f]{64}, now [0-9a-f]{64}"):
        held_out().resume(pending)
    path.unlink()
    with pytest.raises(RewardConfigError, match=r"rollouts\.jsonl can't be read"):
        held_out().resume(pending)
    assert judges.calls == []


def test_the_rollouts_that_are_meant_are_compared(held_out: Make, rollouts: Rollouts, pending: Path) -> None:
    """Whoever names rollouts at a resume goes on with these or not at all."""
    same = rollouts("1 0", "1 1", "0 0")
    assert not held_out().resume(pending, rollouts=same).is_complete
    with pytest.raises(RewardConfigError, match=r"rollouts\.groups: recorded 3, now 2"):
        held_out().resume(pending, rollouts=same[:4])
    with pytest.raises(RewardContractError, match="group 'g2'"):
        held_out().resume(pending, rollouts=same[:5])


def test_scores_of_another_record_are_refused(
    held_out: Make, rollouts: Rollouts, judges: Any, pending: Path, tmp_path: Path
) -> None:
    """A journal that was put beside the wrong record is not taken up: it carries the whole record itself."""
    other = held_out().begin(rollouts("0 0", "1 1", "0 0"), 10, tmp_path / "other")
    for name in (".scores.jsonl.journal", ".scores.jsonl.partial"):
        (tmp_path / "other" / name).write_bytes((pending / name).read_bytes())
    with pytest.raises(RewardConfigError, match=r"rollouts\.sha256"):
        other.complete()
    assert judges.calls == []


def test_a_complete_one_is_held_to_its_identity_too(held_out: Make, judges: Any, pending: Path) -> None:
    """Scores of one judge are never told as those of another."""
    held_out().resume(pending).complete()
    judges.declare(semantic_identity={**JUDGE, "model": "judge-2026-09-01"})
    with pytest.raises(RewardConfigError, match=r"providers\[0\]\.sha256"):
        held_out().resume(pending)


def test_resume_03_not_scored_stays_not_scored(
    held_out: Make, rollouts: Rollouts, files_of: Files, tmp_path: Path
) -> None:
    """Case resume-03: t1 has 1.0, t2 is not scored; saved and loaded the mean is 1.0, and one group is dropped."""
    settings = ("rl.reward_stage.on_unavailable=drop_group", "rl.reward_stage.max_dropped_fraction=0.5")
    validation = held_out("rl.validation.n_generation=1", *settings)
    pending = validation.begin(rollouts("1", "down"), 1, tmp_path / "v")
    stopped_after_the_first(pending)
    first = validation.resume(tmp_path / "v").complete()
    loaded = held_out("rl.validation.n_generation=1", *settings).resume(tmp_path / "v").complete()
    for result in (first, loaded):
        assert result.metrics["val/reward/final/mean"] == 1.0
        assert result.metrics["val/reward/task/mean"] == 1.0
        assert result.metrics["val/reward/final/min"] == 1.0
        assert result.metrics["val/reward/final/best_of_1"] == 1.0
        assert result.metrics["val/reward/task/pass_at_1"] == 1.0
        assert result.metrics["val/group/count"] == 2.0
        assert result.metrics["val/group/dropped_count"] == 1.0
        assert result.metrics["val/reward_provider/rubric/sample_count"] == 1.0
        assert result.report.dropped == {"rubric: RewardUnavailableError": 1}
    files = files_of(tmp_path / "v")
    t1, t2 = map(json.loads, files["scores.jsonl"].splitlines())
    assert t1["reward"] == {"task": 1.0, "final": 1.0}
    assert t2["reward"] == {}
    assert t2["advantage"] is None
    assert t2["dropped_because"] == "rubric: RewardUnavailableError"
    assert not any(b"NaN" in data for data in files.values())
    assert b"null" not in files["result.json"].replace(b'"slowest_group": null', b"")
    assert b"null" not in files["metrics.json"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no record of a validation"),
        ("[]", "has format None"),
        ('{"format": 2}', r"has format 2 \(int\), and this version of Posttrain reads format 1"),
        ('{"format": 1, "posttrain": "0.1.0"}', "stage is missing"),
    ],
)
def test_a_damaged_record_is_refused(held_out: Make, pending: Path, text: str, message: str) -> None:
    """A record that can't be read names its file and what is wrong."""
    (pending / "scores.identity.json").write_text(text)
    with pytest.raises(RewardConfigError, match=message):
        held_out().resume(pending)


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record.update(n_generation=3),
        lambda record: record.update(stage_sha256="0" * 64),
        lambda record: record["providers"][0].update(revision="9"),
        lambda record: record["stage"].update(estimator="group_mean"),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(
    held_out: Make, pending: Path, change: Callable[[dict[str, Any]], Any]
) -> None:
    """What is told for people and what is compared are the same, or the record is damaged."""
    path = pending / "scores.identity.json"
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))
    with pytest.raises(RewardConfigError, match="is damaged"):
        held_out().resume(pending)


def test_a_field_that_is_not_known_is_refused(held_out: Make, pending: Path) -> None:
    """A later version may record what this one could not compare."""
    path = pending / "scores.identity.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "temperature": 1}))
    with pytest.raises(RewardConfigError, match="unknown field `temperature`"):
        held_out().resume(pending)


def test_where_none_has_begun_there_is_nothing_to_resume(held_out: Make, tmp_path: Path) -> None:
    """A folder without a record is no validation."""
    with pytest.raises(RewardConfigError, match="no validation has begun in"):
        held_out().resume(tmp_path / "nowhere")


def test_a_kill_between_record_and_rollouts_is_mended(held_out: Make, rollouts: Rollouts, tmp_path: Path) -> None:
    """Rollouts that are whole but not in their place yet are put there, if they are those of the record."""
    held_out().begin(rollouts("1 0"), 1, tmp_path / "v")
    named, fresh = tmp_path / "v/rollouts.jsonl", tmp_path / "v/.rollouts.jsonl.new"
    named.rename(fresh)
    text = fresh.read_text()
    fresh.write_text(text.replace("prompt 0", "prompt 1"))
    with pytest.raises(RewardConfigError, match=r"rollouts\.sha256"):
        held_out().resume(tmp_path / "v")
    assert not named.exists()
    fresh.write_text(text)
    assert held_out().resume(tmp_path / "v").complete().metrics["val/reward/final/mean"] == 0.5
    assert not fresh.exists()
