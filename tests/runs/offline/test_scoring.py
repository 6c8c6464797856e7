# SPDX-License-Identifier: Apache-2.0
"""`score_file`, `explain` and `replay` as functions: what they give back and whom they tell."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from posttrain.errors import RewardConfigError, RewardContractError, RewardError, RewardUnavailableError
from posttrain.rewards import RewardReport, RewardWorker
from posttrain.rollouts.journal import Journal
from posttrain.rollouts.source import RolloutSource
from posttrain.runs.offline import (
    FailedRequest,
    FileScores,
    Progress,
    explain,
    load_failed_request,
    replay,
    score_file,
)
from posttrain.runs.offline.failure import keeping_failed_request
from posttrain.runs.offline.record import provenance, size_of
from posttrain.testing import ScriptedProvider


def worker_of(provider: ScriptedProvider, **settings: object) -> RewardWorker:
    """A worker for groups of two that one scripted provider scores."""
    return RewardWorker(catalog={"scripted": provider.spec()}, reward="scripted", group_size=2, **settings)  # type: ignore[arg-type]  # settings of the tests below


@pytest.fixture
def rollouts(written: Callable[..., Path]) -> Path:
    """Ten groups of two."""
    rows = [
        {"group_id": f"g{group}", "trajectory_id": f"g{group}/{at}", "completion": "x", "finish_reason": "stop"}
        for group in range(10)
        for at in range(2)
    ]
    return written("rollouts.jsonl", rows)


def test_the_report_is_that_of_one_batch(rollouts: Path) -> None:
    """However the file is cut into stretches, the metrics have the bits of the whole scored as one batch."""
    scripts = {f"g{at}": [at * 0.1, 0.3] for at in range(10)}
    with worker_of(ScriptedProvider(scripts)) as worker:
        scores = score_file(worker.stage, RolloutSource(rollouts))
        whole = [each for group in RolloutSource(rollouts).groups() for each in group.trajectories]
        report = worker.score(whole)
    assert scores.report.metrics() == report.metrics()
    assert scores == FileScores(report=scores.report, resumed_groups=0, written=())


def test_rows_have_the_advantages_of_one_batch(rollouts: Path, tmp_path: Path) -> None:
    """The second pass over the file gives what the worker gives for the same trajectories in memory."""
    scripts = {f"g{at}": [at * 0.1, 0.3] for at in range(10)}
    with worker_of(ScriptedProvider(scripts), estimator="group_mean_batch_std") as worker:
        score_file(worker.stage, RolloutSource(rollouts), out=tmp_path / "out.jsonl")
        whole = [each for group in RolloutSource(rollouts).groups() for each in group.trajectories]
        worker.score(whole)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(row["trajectory_id"], row["reward"], row["advantage"]) for row in rows] == [
        (each.trajectory_id, each.reward, each.advantage) for each in whole
    ]


def test_dropped_groups_pass_the_second_pass_untouched(rollouts: Path, tmp_path: Path) -> None:
    """A dropped group stays without reward and advantage when the whole file is the batch."""
    provider = ScriptedProvider({"g3": RewardUnavailableError("503")}, otherwise=[0.0, 1.0])
    with worker_of(provider, estimator="group_mean_batch_std", on_unavailable="drop_group") as worker:
        scores = score_file(worker.stage, RolloutSource(rollouts), out=tmp_path / "out.jsonl")
    assert scores.report.dropped_count == 1
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    dropped = [row for row in rows if row["advantage"] is None]
    assert [row["trajectory_id"] for row in dropped] == ["g3/0", "g3/1"]
    assert all(row["reward"] == {} for row in dropped)
    # Zeros and ones in equal parts: the standard deviation is 0.5.
    assert {row["advantage"] for row in rows if row not in dropped} == {-0.5 / (0.5 + 1e-4), 0.5 / (0.5 + 1e-4)}


def test_progress_is_told(rollouts: Path, tmp_path: Path) -> None:
    """Bytes, groups and candidates only ever grow, and end at the whole of the file."""
    seen: list[Progress] = []
    with worker_of(ScriptedProvider(otherwise=[0.0, 1.0])) as worker:
        score_file(worker.stage, RolloutSource(rollouts), out=tmp_path / "out.jsonl", watch=seen.append)
    assert seen[-1] == Progress(rollouts.stat().st_size, 10, 20)
    assert len(seen) > 1
    assert all(
        one.consumed <= two.consumed and one.groups < two.groups and one.candidates < two.candidates
        for one, two in pairwise(seen)
    )


def test_written_names_the_files(rollouts: Path, tmp_path: Path) -> None:
    """Rows, metrics and identity, in this order, as they were asked for."""
    with worker_of(ScriptedProvider(otherwise=[0.0, 1.0])) as worker:
        source = RolloutSource(rollouts)
        out, metrics = tmp_path / "a/out", tmp_path / "b/m.json"
        assert score_file(worker.stage, source, out=out, metrics=metrics).written == (
            out,
            metrics,
            tmp_path / "a/out.identity.json",
        )
        assert score_file(worker.stage, source, metrics=metrics).written == (metrics,)


def test_a_state_of_another_command_is_refused(rollouts: Path, tmp_path: Path) -> None:
    """A journal with our header and somebody else's state is no run to go on with."""
    with worker_of(ScriptedProvider(otherwise=[0.0, 1.0])) as worker:
        source = RolloutSource(rollouts)
        with Journal.begin(tmp_path / "out", provenance(worker.stage, source)) as journal:
            journal.append(b"x\n")
            journal.checkpoint({"position": 7})
        with pytest.raises(RewardConfigError, match="holds no state of this command"):
            score_file(worker.stage, source, out=tmp_path / "out", resume=True)


def test_a_bug_keeps_what_was_scored(rollouts: Path, tmp_path: Path) -> None:
    """Any exception at all, not only those of the contract, leaves the groups before it to go on with."""

    def stop(_: object) -> None:
        raise SystemExit(7)

    with worker_of(ScriptedProvider({"g7": stop}, otherwise=[0.0, 1.0])) as worker:
        source = RolloutSource(rollouts)
        with pytest.raises(SystemExit, match=r"^7\n") as raised:
            score_file(worker.stage, source, out=tmp_path / "out")
        assert "go on with --resume" in raised.value.__notes__[0]
    provider = ScriptedProvider(otherwise=[0.0, 1.0])
    with worker_of(provider) as worker:
        scores = score_file(worker.stage, source, out=tmp_path / "out", resume=True)
    # Stretches of 1, 2 and 4 groups, then the one that failed.
    assert scores.resumed_groups == 7
    assert [each.group_id for each in provider.requests] == ["g7", "g8", "g9"]


def test_size_of_a_file(rollouts: Path, tmp_path: Path) -> None:
    """Only a regular file has a size."""
    assert size_of(rollouts) == len(rollouts.read_bytes())
    with pytest.raises(RewardConfigError, match="is no regular file"):
        size_of(tmp_path)
    with pytest.raises(RewardConfigError, match="can't be read: No such file"):
        size_of(tmp_path / "nowhere")


def test_an_explanation(rollouts: Path) -> None:
    """The candidate, its place and rows, what the provider saw, and its group's scores with their advantages."""
    with worker_of(ScriptedProvider({"g4": [1.0, 0.0]}), estimator="group_mean") as worker:
        found = explain(worker.stage, RolloutSource(rollouts), "g4/1")
    assert (found.candidate.trajectory_id, found.place, found.rows) == ("g4/1", 1, (9, 10))
    assert found.contexts["scripted"].prompt is None
    assert found.group.final == (1.0, 0.0)
    assert found.group.advantages == (0.5, -0.5)


def test_an_unknown_candidate(rollouts: Path) -> None:
    """The nearest id of the whole file is named."""
    with (
        worker_of(ScriptedProvider()) as worker,
        pytest.raises(RewardConfigError, match=r"has no candidate 'g4/2'; did you mean 'g[0-9]/[01]'\?"),
    ):
        explain(worker.stage, RolloutSource(rollouts), "g4/2")


def test_a_request_is_kept_and_replayed(rollouts: Path, tmp_path: Path) -> None:
    """A record holds the very request, and gives it to the provider of the catalog that is named."""
    provider = ScriptedProvider({"g2": [1.0, float("nan")]}, otherwise=[0.0, 1.0])
    file = tmp_path / "kept.json"
    with (
        pytest.raises(RewardContractError, match="expected one finite number") as raised,
        worker_of(provider) as worker,
        keeping_failed_request(worker.stage.selection, None, file),
    ):
        score_file(worker.stage, RolloutSource(rollouts))
    record = load_failed_request(file)
    assert record.request() == provider.requests[2] == raised.value.request
    assert (record.provider, record.group_id, record.error) == ("scripted", "g2", str(raised.value))
    with pytest.raises(RewardConfigError, match="no provider is named 'scripted'"):
        replay(record)
    scores = replay(msgspec.structs.replace(record, provider="constant"))
    assert scores.terms == {"constant": (1.0, 1.0)}


def test_an_error_without_a_request_is_not_kept(rollouts: Path, tmp_path: Path) -> None:
    """What no provider said leaves no file; an error of another provider's does not either."""
    file = tmp_path / "kept.json"
    with worker_of(ScriptedProvider()) as worker:
        for error in (RewardContractError("rows"), RewardError("odd", provider="other")):
            error.request = None if error.provider is None else FailedRequest
            with (
                pytest.raises(RewardError, match=r"rows|odd"),
                keeping_failed_request(worker.stage.selection, None, file),
            ):
                raise error
    assert not file.exists()


def test_reports_are_built_for_the_namespace(rollouts: Path) -> None:
    """The namespace of the stage is that of the report."""
    with worker_of(ScriptedProvider(otherwise=[0.0, 1.0]), namespace="val") as worker:
        report: RewardReport = score_file(worker.stage, RolloutSource(rollouts)).report
    assert all(name.startswith("val/") for name in report.metrics())
