# SPDX-License-Identifier: Apache-2.0
"""A validation that has begun is on the disk whole: rollouts, and what alone may score them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import posttrain
from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.frozen import freeze, strict_equal
from posttrain.rewards import RewardProviderSpec, RewardWorker
from posttrain.rollouts.columns import RolloutColumns
from posttrain.rollouts.grouping import consecutive
from posttrain.rollouts.journal import Journal
from posttrain.rollouts.source import RolloutSource
from posttrain.runs.validation import HeldOutValidation, pending_validations, validation_folder
from posttrain.runs.validation.rollouts import RolloutLines
from posttrain.schema import Observation, Trajectory
from strategies import json_values

Make = Callable[..., HeldOutValidation]
Rollouts = Callable[..., list[Trajectory]]
Files = Callable[[Path], dict[str, bytes]]

NULL = hashlib.sha256(b"null").hexdigest()


def test_rollouts_and_record_are_saved(
    held_out: Make, rollouts: Rollouts, judges: Any, files_of: Files, tmp_path: Path
) -> None:
    """Two files: the candidates, and step, catalog path, name, revision, identity hash, stage and n_generation."""
    pending = held_out().begin(rollouts("1 0", "0.5 1", reference="r"), 10, tmp_path / "v")
    assert not pending.is_complete
    files = files_of(tmp_path / "v")
    assert sorted(files) == ["rollouts.jsonl", "scores.identity.json"]
    assert [json.loads(line) for line in files["rollouts.jsonl"].splitlines()] == [
        {
            "trajectory_id": f"g{group}/{place}",
            "group_id": f"g{group}",
            "prompt": f"prompt {group}",
            "reference": "r",
            "completion": text,
            "finish_reason": "stop",
        }
        for group, place, text in ((0, 0, "1"), (0, 1, "0"), (1, 0, "0.5"), (1, 1, "1"))
    ]
    provider = {"catalog": judges.path, "provider": "rubric", "revision": "3", "sha256": NULL}
    stage = {
        "providers": [provider],
        "needs": {"rubric": []},
        "terms": {"rubric": ["task"]},
        "weights": {"task": 1.0},
        "estimator": "group_norm",
        "group_size": 2,
        "on_unavailable": "fail",
        "max_dropped_fraction": 0.1,
    }
    text = json.dumps(stage, sort_keys=True, separators=(",", ":"))
    assert json.loads(files["scores.identity.json"]) == {
        "format": 1,
        "posttrain": posttrain.__version__,
        "step": 10,
        "n_generation": 2,
        "namespace": "val",
        "providers": [provider],
        "stage_sha256": hashlib.sha256(text.encode()).hexdigest(),
        "stage": stage,
        "rollouts": {
            "name": "rollouts.jsonl",
            "groups": 2,
            "candidates": 4,
            "bytes": len(files["rollouts.jsonl"]),
            "sha256": hashlib.sha256(files["rollouts.jsonl"]).hexdigest(),
        },
    }
    assert judges.calls == []


def test_rollouts_are_private(held_out: Make, rollouts: Rollouts, tmp_path: Path) -> None:
    """Texts can be read by their owner alone."""
    held_out().begin(rollouts("1 0"), 1, tmp_path / "v")
    assert (tmp_path / "v/rollouts.jsonl").stat().st_mode & 0o777 == 0o600


def test_interleaved_groups_are_saved_side_by_side(held_out: Make, rollouts: Rollouts, tmp_path: Path) -> None:
    """Groups are formed by their id alone; in the file the rows of each stand together."""
    a0, a1, b0, b1 = rollouts("1 2", "3 4")
    held_out().begin([a0, b0, b1, a1], 1, tmp_path / "v")
    lines = (tmp_path / "v/rollouts.jsonl").read_text().splitlines()
    assert [json.loads(line)["trajectory_id"] for line in lines] == ["g0/0", "g0/1", "g1/0", "g1/1"]


def test_what_the_rollout_recorded_is_kept(held_out: Make, tmp_path: Path) -> None:
    """Row id, verdict and token count are saved where they are known; an unknown verdict stays unknown."""
    made = [
        Trajectory(
            trajectory_id=name,
            group_id="g",
            obs=Observation(id="g", prompt=[{"role": "user", "content": "hi"}], row_id="row 7"),
            completion="",
            policy_info=info,
        )
        for name, info in (("a", {"finish_reason": "length", "completion_token_count": 0}), ("b", {}))
    ]
    held_out().begin(made, 1, tmp_path / "v")
    first, second = map(json.loads, (tmp_path / "v/rollouts.jsonl").read_text().splitlines())
    assert first == {
        "trajectory_id": "a",
        "group_id": "g",
        "row_id": "row 7",
        "prompt": [{"role": "user", "content": "hi"}],
        "completion": "",
        "finish_reason": "length",
        "completion_token_count": 0,
    }
    assert "finish_reason" not in second
    source = RolloutSource(tmp_path / "v/rollouts.jsonl")
    (group,) = source.groups()
    assert [each.policy_info for each in group.trajectories] == [
        {"finish_reason": "length", "completion_token_count": 0},
        {},
    ]


def _reading(*needs: str) -> RewardWorker:
    spec = RewardProviderSpec(factory=_Never, revision="1", terms=("t",), needs=needs)
    return RewardWorker(catalog={"reader": spec}, reward="reader", group_size=1, namespace="val")


class _Never:
    def evaluate(self, request: Any) -> Any:
        raise AssertionError("nothing is scored here")


def _saved(worker: RewardWorker, *made: Trajectory) -> list[dict[str, Any]]:
    return [json.loads(line) for piece in RolloutLines(made, worker.stage) for line in piece.splitlines()]


def _one(name: str = "t", **inputs: Any) -> Trajectory:
    return Trajectory(trajectory_id=name, group_id=name, obs=Observation(id=name, **inputs), completion="x")


@given(prompt=json_values, reference=json_values, completion=st.text(max_size=8))
def test_what_is_read_back_is_what_was_saved(
    tmp_path_factory: pytest.TempPathFactory, prompt: Any, reference: Any, completion: str
) -> None:
    """Inputs and completion come back strictly equal, types of numbers and signs of zeros included, or are refused."""
    made = _one(prompt=prompt, reference=reference)
    made.completion = completion
    worker = _reading(*[name for name, value in (("prompt", prompt), ("reference", reference)) if value is not None])
    lines = RolloutLines([made], worker.stage)
    if any("\ud800" <= each <= "\udfff" for each in _texts(prompt) + _texts(reference)):
        with pytest.raises(RewardContractError, match="half a character"):
            list(lines)
        return
    path = tmp_path_factory.mktemp("saved") / "rollouts.jsonl"
    path.write_bytes(b"".join(lines))
    (group,) = RolloutSource(path).groups()
    (read,) = group.trajectories
    assert read.completion == completion
    assert strict_equal(freeze(read.obs.prompt), freeze(prompt))
    assert strict_equal(freeze(read.obs.reference), freeze(reference))


def _texts(value: Any) -> str:
    """Every character of every text in a value."""
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)):
        return "".join(map(_texts, value))
    if hasattr(value, "items"):
        return "".join(key + _texts(item) for key, item in value.items())
    return ""


@pytest.mark.parametrize("odd", [object(), float("nan"), {"image": b"\x89PNG"}, "\ud83d", {1: 2}])
def test_an_input_that_none_reads_may_be_anything(odd: Any) -> None:
    """It is left out where it is no JSON; one that a provider reads is saved beside it."""
    (row,) = _saved(_reading("reference"), _one(prompt=odd, reference="r"))
    assert row == {"trajectory_id": "t", "group_id": "t", "reference": "r", "completion": "x"}


def test_one_object_in_two_roles_is_saved_in_each() -> None:
    """An object that is prompt and reference at once is saved for the one that is read, whatever it is as the other."""
    shared = {"a": [1, 2.0, True]}
    (row,) = _saved(_reading("reference"), _one(prompt=shared, reference=shared))
    assert row["prompt"] == row["reference"] == shared


def test_texts_with_half_a_character_are_refused() -> None:
    """Every candidate whose text no file can hold is named."""
    made = [_one(name, prompt="p") for name in "abc"]
    made[0].completion = made[2].completion = "\ud83d"
    with pytest.raises(RewardContractError, match=r"(?s)trajectory 'a'.*trajectory 'c'") as caught:
        _saved(_reading(), *made)
    assert "'b'" not in str(caught.value)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ((), "expected at least one group"),
        (("1 0 1",), r"group 'g0'.*expected.*2"),
        (("1 0", "1"), r"group 'g1'.*expected.*2"),
    ],
)
def test_groups_that_break_the_contract_are_refused(
    held_out: Make, rollouts: Rollouts, tmp_path: Path, groups: tuple[str, ...], message: str
) -> None:
    """What the stage would refuse is refused before anything is saved."""
    with pytest.raises(RewardContractError, match=message):
        held_out().begin(rollouts(*groups), 1, tmp_path / "v")
    assert list((tmp_path / "v").iterdir()) == []


@pytest.mark.parametrize("step", [-1, True, 1.0, "1", 100_000_000])
def test_a_step_that_is_none_is_refused(held_out: Make, rollouts: Rollouts, tmp_path: Path, step: Any) -> None:
    """A step is an int that eight digits hold."""
    with pytest.raises(RewardContractError, match="step: expected an int from 0 to 99,999,999"):
        held_out().begin(rollouts("1 0"), step, tmp_path / "v")


def test_a_file_of_rollouts_is_saved_in_the_same_form(held_out: Make, rollouts: Rollouts, tmp_path: Path) -> None:
    """From a file with other columns and no ids come the same rows, the minted ids in them."""
    file = tmp_path / "held_out.jsonl"
    file.write_text("".join(json.dumps({"q": "prompt 0", "completion": text}) + "\n" for text in ("1", "0")))
    held_out().begin(RolloutSource(file, RolloutColumns(prompt="q"), consecutive(2)), 1, tmp_path / "v")
    assert [json.loads(line) for line in (tmp_path / "v/rollouts.jsonl").read_text().splitlines()] == [
        {"trajectory_id": f"group-0/{at}", "group_id": "group-0", "prompt": "prompt 0", "completion": text}
        for at, text in enumerate(("1", "0"))
    ]


def test_an_empty_file_is_refused(held_out: Make, tmp_path: Path) -> None:
    """A file without rows is no validation."""
    (tmp_path / "none.jsonl").write_text("\n")
    with pytest.raises(RewardContractError, match="no rollouts to validate"):
        held_out().begin(RolloutSource(tmp_path / "none.jsonl"), 1, tmp_path / "v")
    assert list((tmp_path / "v").iterdir()) == []


def test_a_validation_is_never_overwritten_unasked(
    held_out: Make, rollouts: Rollouts, files_of: Files, tmp_path: Path
) -> None:
    """Pending or complete, it stays; the message says which it is and what to do."""
    validation = held_out()
    pending = validation.begin(rollouts("1 0"), 1, tmp_path / "v")
    before = files_of(tmp_path / "v")
    with pytest.raises(RewardConfigError, match="holds a validation that is pending: go on with --resume"):
        validation.begin(rollouts("0 0"), 1, tmp_path / "v")
    assert files_of(tmp_path / "v") == before
    pending.complete()
    with pytest.raises(RewardConfigError, match="holds a validation that is complete"):
        validation.begin(rollouts("0 0"), 1, tmp_path / "v")


@pytest.mark.parametrize("complete", [False, True])
def test_one_that_is_overwritten_is_gone(
    held_out: Make, rollouts: Rollouts, files_of: Files, tmp_path: Path, complete: bool
) -> None:
    """Scores, result and rollouts of the earlier one leave no trace."""
    validation = held_out()
    pending = validation.begin(rollouts("1 0", "1 1"), 1, tmp_path / "v")
    if complete:
        pending.complete()
    again = validation.begin(rollouts("0 0"), 2, tmp_path / "v", overwrite=True)
    assert sorted(files_of(tmp_path / "v")) == ["rollouts.jsonl", "scores.identity.json"]
    assert again.complete().metrics["val/reward/final/mean"] == 0.0


def test_its_own_rollouts_may_be_validated_anew(held_out: Make, rollouts: Rollouts, tmp_path: Path) -> None:
    """The file that is overwritten may be the one that is read."""
    validation = held_out("rl.validation.reward=half")
    held_out().begin(rollouts("1 0"), 1, tmp_path / "v").complete()
    source = RolloutSource(tmp_path / "v/rollouts.jsonl")
    again = validation.begin(source, 1, tmp_path / "v", overwrite=True)
    assert again.complete().metrics["val/reward/half/mean"] == 0.25


def test_bad_rollouts_do_not_cost_the_earlier_validation(
    held_out: Make, rollouts: Rollouts, files_of: Files, tmp_path: Path
) -> None:
    """Nothing of it is touched before the new rollouts are known to be sound."""
    validation = held_out()
    validation.begin(rollouts("1 0"), 1, tmp_path / "v").complete()
    before = files_of(tmp_path / "v")
    with pytest.raises(RewardContractError, match="group 'g0'"):
        validation.begin(rollouts("1 0 1"), 1, tmp_path / "v", overwrite=True)
    assert files_of(tmp_path / "v") == before


def test_one_that_is_being_scored_is_not_overwritten(
    held_out: Make, rollouts: Rollouts, files_of: Files, tmp_path: Path
) -> None:
    """Whoever scores it holds it; it stays as it is."""
    validation = held_out()
    pending = validation.begin(rollouts("1 0"), 1, tmp_path / "v")
    with Journal.begin(tmp_path / "v/scores.jsonl", pending.record.to_json()):
        before = {name: data for name, data in files_of(tmp_path / "v").items() if not name.endswith(".new")}
        with pytest.raises(RewardConfigError, match="being written by another process"):
            validation.begin(rollouts("0 0"), 1, tmp_path / "v", overwrite=True)
        after = {name: data for name, data in files_of(tmp_path / "v").items() if not name.endswith(".new")}
        assert after == before
        with pytest.raises(RewardConfigError, match="being written by another process"):
            pending.complete()


@pytest.mark.parametrize("name", ["rollouts.jsonl", "scores.jsonl", "metrics.json", "result.json"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_files_of_somebody_else_are_never_touched(
    held_out: Make, rollouts: Rollouts, files_of: Files, tmp_path: Path, name: str, overwrite: bool
) -> None:
    """A folder that holds a file of such a name, but no validation, is refused."""
    (tmp_path / name).write_text("mine")
    before = (tmp_path / name).read_bytes()
    with pytest.raises(RewardConfigError, match=f"holds {name}, but no validation"):
        held_out().begin(rollouts("1 0"), 1, tmp_path, overwrite=overwrite)
    assert (tmp_path / name).read_bytes() == before


def test_a_folder_that_can_not_be_made_is_refused(held_out: Make, rollouts: Rollouts, tmp_path: Path) -> None:
    """A file in the place of the folder is said."""
    (tmp_path / "file").write_text("")
    with pytest.raises(RewardConfigError, match="can't be made"):
        held_out().begin(rollouts("1 0"), 1, tmp_path / "file")


def test_a_run_keeps_its_validations_by_step(held_out: Make, rollouts: Rollouts, tmp_path: Path) -> None:
    """Those that are pending are found again in the order of their steps; complete and unbegun ones are not listed."""
    assert validation_folder(tmp_path, 10) == tmp_path / "validation" / "step-00000010"
    assert pending_validations(tmp_path) == []
    validation = held_out()
    for step in (20, 3, 100):
        validation.begin(rollouts("1 0"), step, validation_folder(tmp_path, step))
    (tmp_path / "validation/step-00000001").mkdir()
    (tmp_path / "validation/.step-00000002.removed").mkdir()
    validation.resume(validation_folder(tmp_path, 20)).complete()
    assert [each.name for each in pending_validations(tmp_path)] == ["step-00000003", "step-00000100"]


def test_a_pending_validation_says_what_it_is(held_out: Make, rollouts: Rollouts, tmp_path: Path) -> None:
    """Its repr has step, state and folder."""
    pending = held_out().begin(rollouts("1 0"), 7, tmp_path / "v")
    assert repr(pending) == f"PendingValidation(step=7, pending, {str(tmp_path / 'v')!r})"
    pending.complete()
    assert "step=7, complete" in repr(pending)
