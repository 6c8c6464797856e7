# SPDX-License-Identifier: Apache-2.0
"""A run goes on under the reward that it began with, or under another one that its user accepted by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.rewards import RewardReport, StageIdentity
from posttrain.rewards.metrics.moments import Moments
from posttrain.runs.directory import Provenance, RecordedRun, RunDirectory
from strategies import reports

Begin = Callable[..., RunDirectory]
Tree = Callable[[Path], dict[str, bytes | None]]


@pytest.fixture
def other(scored: Callable[..., Any]) -> Any:
    """A batch of another revision and another estimator than the run's."""
    return scored({"g1": [1.0, 0.0]}, revision="2", estimator="group_mean")


def test_the_state_comes_back(begin: Begin, batch: Any) -> None:
    """Step, identity and report, as they were saved; the last one counts, and none is None."""
    identity = batch.worker.stage_identity
    with begin() as run:
        assert run.load_state(identity) is None
        run.save_state(1, identity, RewardReport(namespace="train"))
        run.save_state(5, identity, batch.report)
    with RunDirectory.open(run.path) as again:
        state = again.load_state(identity)
        assert state is not None
        assert (state.step, state.stage, state.stage_sha256) == (5, identity, identity.sha256)
        assert state.report == batch.report
    assert RecordedRun(run.path).state == state


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(report=reports())
def test_every_report_comes_back_to_the_bit(
    tmp_path_factory: pytest.TempPathFactory, batch: Any, report: RewardReport
) -> None:
    """Whatever was counted, the metrics of the loaded report are those of the saved one, and so is each later merge."""
    root, identity = tmp_path_factory.mktemp("run"), batch.worker.stage_identity
    with RunDirectory.create(root, "r", config_text="", provenance=Provenance.of(batch.worker.stage)) as run:
        run.save_state(1, identity, report)
        state = run.load_state(identity)
    assert state is not None
    assert repr(state.report) == repr(report)
    assert repr(state.report.merge(batch.report)) == repr(report.merge(batch.report))


def test_a_report_that_is_not_finite_is_refused(begin: Begin, batch: Any) -> None:
    """JSON would turn its NaN into null; the state that was there stays."""
    identity = batch.worker.stage_identity
    broken = msgspec.structs.replace(batch.report, final=Moments(count=1, low=float("nan")))
    with begin() as run:
        run.save_state(1, identity, batch.report)
        with pytest.raises(RewardContractError, match="the report can't be saved, a number in it is not finite"):
            run.save_state(2, identity, broken)
        state = run.load_state(identity)
        assert state is not None
        assert state.step == 1


@pytest.mark.parametrize("has_state", [True, False], ids=["after a checkpoint", "before the first"])
def test_another_identity_is_refused_field_by_field(
    begin: Begin, batch: Any, other: Any, tree: Tree, has_state: bool
) -> None:
    """The error names each field that differs with both values and the hash to accept, and nothing is changed."""
    identity = batch.worker.stage_identity
    with begin() as run:
        if has_state:
            run.save_state(5, identity, batch.report)
        before = tree(run.path)
        for accepted in (None, "0" * 64, other.worker.stage_identity.sha256, identity.sha256[:12]):
            with pytest.raises(RewardConfigError, match="was recorded under another reward") as caught:
                run.load_state(other.worker.stage_identity, accepted)
            file = "state.json" if has_state else "provenance.json"
            named = "" if accepted is None else f" (it names {accepted!r})"
            assert str(caught.value) == (
                f"{run.path / file} was recorded under another reward:\n"
                '  providers[0].revision: recorded "1", now "2"\n'
                '  estimator: recorded "group_norm", now "group_mean"\n'
                "Run with the recorded settings or begin another run. To go on all the same, set rl.accept_identity "
                f"to what is recorded, {identity.sha256!r}{named}: it will be kept as the run's lineage."
            )
        assert tree(run.path) == before
        assert run.load_state(identity) == (RecordedRun(run.path).state)


@pytest.mark.parametrize("has_state", [True, False], ids=["after a checkpoint", "before the first"])
def test_an_accepted_identity_is_recorded_as_lineage(begin: Begin, batch: Any, other: Any, has_state: bool) -> None:
    """The run goes on under the new one, which needs no accepting again; what it was is in the provenance, once."""
    old, new = batch.worker.stage_identity, other.worker.stage_identity
    with begin() as run:
        run.record_step(3, batch.trajectories, batch.outcome)
        if has_state:
            run.save_state(2, old, batch.report)
        for accepted in (old.sha256, old.sha256, None):
            state = run.load_state(new, accepted)
            assert (state is not None) == has_state
            assert state is None or (state.step, state.stage, state.report) == (2, new, batch.report)
        with pytest.raises(RewardConfigError, match='estimator: recorded "group_mean", now "group_norm"'):
            run.load_state(old)
    made = RecordedRun(run.path).provenance
    assert (made.stage, made.stage_sha256, made.providers) == (new, new.sha256, new.providers)
    assert [(each.stage, each.stage_sha256, each.until_step) for each in made.lineage] == [
        (old, old.sha256, 2 if has_state else 3)
    ]


def test_lineage_grows_with_each_acceptance(begin: Begin, batch: Any, other: Any) -> None:
    """There and back again: two ancestors, oldest first."""
    old, new = batch.worker.stage_identity, other.worker.stage_identity
    with begin() as run:
        run.load_state(new, old.sha256)
        run.save_state(4, new, batch.report)
        run.load_state(old, new.sha256)
    made = RecordedRun(run.path).provenance
    assert [(each.stage_sha256, each.until_step) for each in made.lineage] == [(old.sha256, None), (new.sha256, 4)]
    assert made.stage == old


def test_a_kill_between_the_two_records_of_an_acceptance(begin: Begin, batch: Any, other: Any) -> None:
    """When the provenance was changed and the state was not yet, accepting again ends it, with one ancestor."""
    old, new = batch.worker.stage_identity, other.worker.stage_identity
    with begin() as run:
        run.save_state(2, old, batch.report)
        before = (run.path / "state.json").read_bytes()
        run.load_state(new, old.sha256)
        (run.path / "state.json").write_bytes(before)
        with pytest.raises(RewardConfigError, match="was recorded under another reward"):
            run.load_state(new)
        state = run.load_state(new, old.sha256)
        assert state is not None
        assert state.stage == new
    assert len(RecordedRun(run.path).provenance.lineage) == 1


def _without(record: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in names}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda record: _without(record, "stage"), "records no stage identity, so that nobody knows"),
        (lambda record: {**record, "stage": None}, "records no stage identity, so that nobody knows"),
        (lambda record: _without(record, "stage_sha256"), "records no stage identity, so that nobody knows"),
        (lambda record: {**record, "stage_sha256": None}, "records no stage identity, so that nobody knows"),
        (lambda record: {**record, "stage_sha256": "0" * 64}, "is damaged: the stage identity in it is not that"),
        (lambda record: {**record, "stage": {**record["stage"], "group_size": 3}}, "is damaged: the stage identity"),
        (lambda record: {**record, "stage": {**record["stage"], "new": 3}}, "is no reward state: .*unknown field"),
        (lambda record: {**record, "report": {**record["report"], "final": None}}, "is no reward state: Expected"),
        (lambda record: {**record, "format": 2}, "has format 2, and this version of Posttrain reads 1"),
        (lambda record: [record], "has format None, and this version"),
        (lambda record: "", "has format None, and this version"),
    ],
)
def test_a_record_without_a_sound_identity_is_refused(begin: Begin, batch: Any, change: Any, why: str) -> None:
    """Whatever is accepted: nobody can know what such a record's steps were scored with."""
    identity = batch.worker.stage_identity
    with begin() as run:
        run.save_state(5, identity, batch.report)
        file = run.path / "state.json"
        file.write_text(json.dumps(change(json.loads(file.read_bytes()))))
        for accepted in (None, identity.sha256):
            with pytest.raises(RewardConfigError, match=why):
                run.load_state(identity, accepted)


def test_a_damaged_file_is_refused(begin: Begin, batch: Any) -> None:
    """Half a file, and a folder in its place, are told as such."""
    with begin() as run:
        run.save_state(5, batch.worker.stage_identity, batch.report)
        file = run.path / "state.json"
        file.write_bytes(file.read_bytes()[:-20])
        with pytest.raises(RewardConfigError, match=r"state.json is no reward state: "):
            run.load_state(batch.worker.stage_identity)
        file.unlink()
        file.mkdir()
        with pytest.raises(RewardConfigError, match=r"can't read .*state.json: Is a directory"):
            run.load_state(batch.worker.stage_identity)


def test_a_judge_that_changed_is_refused_and_one_that_did_not_goes_on(
    begin: Begin, scored: Callable[..., Any], batch: Any
) -> None:
    """As for the stored identity of a judge: another one is refused, the same one goes on, none at all is refused."""
    stored = batch.worker.stage_identity
    changed = msgspec.structs.replace(
        stored, providers=(msgspec.structs.replace(stored.providers[0], sha256="e" * 64),)
    )
    with begin() as run:
        run.save_state(1, stored, batch.report)
        with pytest.raises(RewardConfigError, match=r"providers\[0\].sha256: recorded \"74234e98"):
            run.load_state(changed)
        assert run.load_state(StageIdentity.from_json(stored.to_json())) is not None
        file = run.path / "state.json"
        file.write_text(json.dumps(_without(json.loads(file.read_bytes()), "stage")))
        with pytest.raises(RewardConfigError, match="records no stage identity"):
            run.load_state(stored)
