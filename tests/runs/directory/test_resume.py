# SPDX-License-Identifier: Apache-2.0
"""Going on with a run: under a new config and provenance, from an earlier step, and with what changed told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.rewards.catalog.fingerprint import SourceFingerprint
from posttrain.runs.directory import Provenance, RecordedRun, RunDirectory

Begin = Callable[..., RunDirectory]
Tree = Callable[[Path], dict[str, bytes | None]]


def _with_source(made: Provenance, sha256: str, revision: str = "1") -> Provenance:
    source = SourceFingerprint(
        provider="scripted", revision=revision, sha256=sha256 * 64, modules={"rewards": sha256 * 64}
    )
    return msgspec.structs.replace(made, sources=(source,))


def test_config_and_provenance_are_the_new_ones(begin: Begin, batch: Any) -> None:
    """Under the same identity nothing has to be accepted; what stayed the same makes no ancestor."""
    made = Provenance.of(batch.worker.stage)
    with begin() as run:
        run.save_state(2, batch.worker.stage_identity, batch.report)
    with RunDirectory.resume(run.path, config_text="steps = 9\n", provenance=made) as again:
        assert again.warnings == ()
        state = again.load_state(batch.worker.stage_identity)
        assert state is not None
        assert state.step == 2
    found = RecordedRun(run.path)
    assert (found.config_text, found.provenance) == ("steps = 9\n", made)


def test_another_version_makes_an_ancestor(begin: Begin, batch: Any) -> None:
    """A resume under another version of Posttrain or Python is allowed, and what came before is in the lineage."""
    made = Provenance.of(batch.worker.stage)
    earlier = msgspec.structs.replace(made, posttrain="0.0.9", python="3.11.0")
    with begin(provenance=earlier) as run:
        run.metrics.write(6, {"x": 1.0})
    with RunDirectory.resume(run.path, config_text="", provenance=made):
        pass
    with RunDirectory.resume(run.path, config_text="", provenance=made):
        pass
    (ancestor,) = RecordedRun(run.path).provenance.lineage
    assert (ancestor.posttrain, ancestor.python, ancestor.until_step) == ("0.0.9", "3.11.0", 6)
    assert ancestor.stage == made.stage


def test_a_source_that_changed_under_its_revision_is_a_warning(begin: Begin, batch: Any) -> None:
    """It names provider, revision and both fingerprints; the run goes on, and the lineage keeps the old one."""
    made = Provenance.of(batch.worker.stage)
    run = begin(provenance=_with_source(made, "a"))
    run.close()
    path = run.path
    for sha256, revision, expected in (("a", "1", 0), ("b", "1", 1), ("b", "1", 0), ("c", "2", 0)):
        with RunDirectory.resume(path, config_text="", provenance=_with_source(made, sha256, revision)) as run:
            assert len(run.warnings) == expected
            if expected:
                (line,) = run.warnings
                assert line == (
                    "the source of provider 'scripted' changed, but its revision is still '1': recorded aaaaaaaaaaaa, "
                    "now bbbbbbbbbbbb (rewards); give it a new revision if it may score differently"
                )
    lineage = RecordedRun(path).provenance.lineage
    assert [each.sources[0].sha256 for each in lineage] == ["a" * 64, "b" * 64]


@pytest.mark.parametrize("has_state", [True, False], ids=["after a checkpoint", "before the first"])
def test_another_identity_has_to_be_accepted(
    begin: Begin, batch: Any, scored: Callable[..., Any], tree: Tree, has_state: bool
) -> None:
    """Refused, the run is as it was; accepted, state and provenance are of the new identity, and the old is lineage."""
    old = batch.worker.stage_identity
    other = scored({"g1": [1.0, 0.0]}, revision="2")
    made = Provenance.of(other.worker.stage)
    with begin() as run:
        run.record_step(8, batch.trajectories, batch.outcome)
        if has_state:
            run.save_state(7, old, batch.report)
    before = tree(run.path)
    with pytest.raises(
        RewardConfigError, match=r'recorded under another reward:\n  providers\[0\].revision: recorded "1"'
    ):
        RunDirectory.resume(run.path, config_text="new", provenance=made)
    assert tree(run.path) == before
    with RunDirectory.resume(run.path, config_text="new", provenance=made, accept_identity=old.sha256) as again:
        state = again.load_state(other.worker.stage_identity)
        assert state is None or (state.step, state.report) == (7, batch.report)
        assert (state is not None) == has_state
    found = RecordedRun(run.path).provenance
    assert (found.stage, found.sources) == (made.stage, made.sources)
    assert [(each.stage_sha256, each.until_step) for each in found.lineage] == [(old.sha256, 7 if has_state else 8)]


def test_a_refused_resume_lets_go_of_the_run(begin: Begin, batch: Any, scored: Callable[..., Any]) -> None:
    """Right after it, somebody else can open the run."""
    run = begin()
    run.close()
    other = scored({"g1": [1.0, 0.0]}, revision="2")
    with pytest.raises(RewardConfigError, match="recorded under another reward"):
        RunDirectory.resume(run.path, config_text="", provenance=Provenance.of(other.worker.stage))
    (run.path / "metrics.jsonl").write_text("nonsense\n")
    with pytest.raises(RewardContractError, match="line 1: no line of metrics"):
        RunDirectory.open(run.path)
    (run.path / "metrics.jsonl").write_text("")
    RunDirectory.open(run.path).close()


@pytest.mark.parametrize("step", [-1, 0, 1, 2, 3, 9])
def test_rewinding_forgets_what_came_after(begin: Begin, batch: Any, step: int) -> None:
    """Candidates, metrics, validations and the state of later steps are gone, those up to the step are as they were."""
    with begin() as run:
        for number in (0, 1, 2, 3):
            run.record_step(number, batch.trajectories, batch.outcome)
            run.metrics.write(number, {"x": float(number)})
            (run.path / "validation" / f"step-{number:08d}").mkdir(parents=True)
            (run.path / "validation" / f"step-{number:08d}" / "scores.jsonl").write_text("paid for")
        run.save_state(2, batch.worker.stage_identity, batch.report)
        run.rewind(step)
        kept = [number for number in (0, 1, 2, 3) if number <= step]
        found = RecordedRun(run.path)
        assert found.steps == kept
        assert found.metrics() == {number: {"x": float(number)} for number in kept}
        assert sorted(each.name for each in (run.path / "validation").iterdir()) == [f"step-{it:08d}" for it in kept]
        assert (found.state is not None) == (step >= 2)
        assert run.last_step == (kept[-1] if kept else None)
        if step < 99:
            run.record_step(step + 1, batch.trajectories, batch.outcome)
            run.metrics.write(step + 1, {"x": 9.0})
        assert RecordedRun(run.path).metrics()[step + 1] == {"x": 9.0}


def test_rewinding_takes_only_steps(begin: Begin) -> None:
    """-1 means everything; what is no step otherwise is refused."""
    with begin() as run:
        for step in (-2, 1.0, True):
            with pytest.raises(RewardContractError, match="step: expected an int"):
                run.rewind(step)  # type: ignore[arg-type]  # on purpose


def test_a_validation_that_is_on_its_way_out_twice(begin: Begin) -> None:
    """What an earlier, killed rewind left under the other name does not stand in the way."""
    with begin() as run:
        for name in ("step-00000003", ".step-00000003.removed"):
            (run.path / "validation" / name / "deep").mkdir(parents=True)
        run.rewind(2)
        assert list((run.path / "validation").iterdir()) == []
