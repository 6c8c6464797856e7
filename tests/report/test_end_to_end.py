# SPDX-License-Identifier: Apache-2.0
"""Reports of what the rest of the package writes: runs, validations, dumps of other tools, files of any length."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.report import build_report, open_scores, write_report
from posttrain.report.texts import rollouts_beside, rollouts_of
from posttrain.rewards import RewardWorker
from posttrain.rollouts.grouping import consecutive
from posttrain.rollouts.importers import dump_source
from posttrain.rollouts.source import RolloutSource
from posttrain.runs.directory import Provenance, RecordSettings, RunDirectory
from posttrain.runs.offline import score_file
from posttrain.schema import Observation, Trajectory

Written = Callable[..., Path]


def _batch(step: int, names: dict[str, list[str]]) -> list[Trajectory]:
    """Groups whose rows interleave, as a rollout may give them."""
    made = []
    for place in range(2):
        for name, texts in names.items():
            obs = Observation(
                id=name, prompt=[{"role": "user", "content": f"{name}?"}], reference="4", row_id=f"row {name}"
            )
            info = {"finish_reason": "length" if step == 2 else "stop", "completion_token_count": 3}
            made.append(
                Trajectory(
                    trajectory_id=f"{name}/{place}", group_id=name, obs=obs, completion=texts[place], policy_info=info
                )
            )
    return made


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_recorded_run_is_reported(tmp_path: Path, kind: Any) -> None:
    """What `RunDirectory` writes, in both formats: rows, weights, metrics, the slowest group, and its privacy."""
    if kind == "parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install pyarrow")
    weights, report = {"gsm8k": 2.0}, None
    with (
        RewardWorker(reward="gsm8k", group_size=2, weights=weights, estimator="group_mean") as worker,
        RunDirectory.create(
            tmp_path,
            "first",
            config_text="",
            provenance=Provenance.of(worker.stage),
            settings=RecordSettings(format=kind),
        ) as run,
    ):
        for step, right in ((1, "#### 5"), (2, "#### 4")):
            batch = _batch(step, {"a": ["#### 4", right], "b": ["#### 4", "no answer"]})
            outcome = worker.compute(batch)
            report = worker.commit(batch, outcome)
            run.record_step(step, batch, outcome)
            run.metrics.write(step, report.metrics())
        assert report is not None
        run.save_state(2, worker.stage_identity, report)
    built = build_report(open_scores(tmp_path / "first"))
    data = built.data
    # Weighted finals: 2 0 and 2 0 in step 1, 2 2 and 2 0 in step 2.
    assert data["totals"]["mean"] == 10 / 8
    assert data["reward"]["mean"] == [1.0, 1.5]
    assert data["spread"]["counts"][0] == [0, 1]
    assert data["finish"]["truncated"] == [0.0, 1.0]
    assert (data["terms"][0]["weight"], data["terms"][0]["advantage"], data["shares"]) == (2.0, 1.0, None)
    assert [each[0] for each in data["slowest"]] == ["gsm8k"]
    assert data["table"]["columns"]["row"] == ["row a", "row b"] * 2
    first = json.loads(zlib.decompress(built.entries[0].block))
    assert (first["prompt"], first["texts"]) == ([["user", "a?"]], ["#### 4", "#### 5"])
    write_report(built, tmp_path / "report.html")
    # The rows of a run are for its owner alone, and so is what shows them.
    assert (tmp_path / "report.html").stat().st_mode & 0o777 == 0o600


def test_a_page_is_as_open_as_its_rollouts(written: Written, tmp_path: Path) -> None:
    """Scores may be public; a page that also holds the texts is for those who may read these."""
    rollouts = written("r.jsonl", [{"group_id": "g", "completion": "x"}])
    with RewardWorker(reward="nonempty", group_size=1) as worker:
        score_file(worker.stage, RolloutSource(rollouts), out=tmp_path / "s.jsonl")
    scores = open_scores(tmp_path / "s.jsonl")
    for mode in (0o600, 0o640, 0o644):
        rollouts.chmod(mode)
        assert build_report(scores, rollouts=rollouts_of(scores, rollouts)).mode == mode
    assert build_report(scores).mode == 0o644


def test_rollouts_beside_their_scores_are_found(written: Written, tmp_path: Path) -> None:
    """By the recorded name, and only as long as they are what was scored."""
    rollouts = written("r.jsonl", [{"group_id": "g", "completion": "x"}])
    with RewardWorker(reward="nonempty", group_size=1) as worker:
        score_file(worker.stage, RolloutSource(rollouts), out=tmp_path / "s.jsonl")
    scores = open_scores(tmp_path / "s.jsonl")
    assert rollouts_beside(scores) == rollouts
    written("r.jsonl", [{"group_id": "g", "completion": "y"}])
    assert rollouts_beside(scores) is None
    written("s.identity.json", json.dumps({"rollouts": {"name": "../r.jsonl", "sha256": "x"}}))
    assert rollouts_beside(open_scores(tmp_path / "s.jsonl")) is None


def test_a_validation_is_reported_by_its_folder(command: Callable[..., Any], written: Written, tmp_path: Path) -> None:
    """Its rollouts lie beside its scores."""
    held_out = [{"group_id": "g", "completion": text, "reference": "4"} for text in ("#### 4", "#### 5")]
    done = command(
        *("validate", "rl.reward=gsm8k", "rl.group_size=8", "rl.validation.n_generation=2"),
        *("--rollouts", written("held.jsonl", held_out), "--out", "val"),
    )
    assert done.returncode == 0, done.stderr
    done = command("report", "val")
    assert done.returncode == 0, done.stderr
    scores = open_scores(tmp_path / "val")
    source = rollouts_beside(scores)
    assert source is not None
    data = build_report(scores, rollouts=rollouts_of(scores, source)).data
    assert (data["totals"]["mean"], data["table"]["columns"]["id"], data["notes"]) == (0.5, ["g"], [])
    assert (tmp_path / "val" / "scores.report.html").stat().st_mode & 0o077 == 0


def test_the_texts_of_another_tools_dump_are_joined(tmp_path: Path, repository: Path) -> None:
    """Tool, columns and grouping are as recorded; without a record the tool is recognised."""
    dump = repository / "tests" / "rollouts" / "importers" / "data" / "verl" / "1.jsonl"
    with RewardWorker(reward="nonempty", group_size=4) as worker:
        score_file(worker.stage, dump_source(dump, "verl"), out=tmp_path / "s.jsonl")
    scores = open_scores(tmp_path / "s.jsonl")
    for _ in range(2):
        report = build_report(scores, rollouts=rollouts_of(scores, dump))
        texts = [json.loads(zlib.decompress(each.block))["texts"][0] for each in report.entries]
        assert texts == ["2", "5", "7"]
        (tmp_path / "s.identity.json").unlink(missing_ok=True)
        scores = open_scores(tmp_path / "s.jsonl")


def test_groups_of_a_dump_can_be_told(written: Written, tmp_path: Path) -> None:
    """What was scored under a rule of the user's is joined under the recorded rule."""
    rollouts = written("r.jsonl", [{"completion": str(at)} for at in range(4)])
    with RewardWorker(reward="nonempty", group_size=2) as worker:
        score_file(worker.stage, RolloutSource(rollouts, grouping=consecutive(2)), out=tmp_path / "s.jsonl")
    scores = open_scores(tmp_path / "s.jsonl")
    assert rollouts_of(scores, rollouts).grouping == consecutive(2)


_PEAK = """
import sys
from pathlib import Path
from posttrain.report import build_report, open_scores, write_report
from posttrain.report.compare import compare_scores
scores = [open_scores(Path(name)) for name in sys.argv[1:3]]
if sys.argv[3] == "report":
    write_report(build_report(scores[0], table_candidates=1000), Path(sys.argv[4]))
else:
    compare_scores(*scores)
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak memory is read from /proc")
@pytest.mark.parametrize("what", ["report", "compare"])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, what: str) -> None:
    """Eight times the groups cost no more than the digests of their ids."""
    peaks = []
    for groups in (2_000, 16_000):
        for name in ("a", "b"):
            lines = (
                b'{"trajectory_id":"%d/%d","group_id":"%d","reward":{"x":%d,"final":%d},"advantage":0.5,"completion":"%s"}\n'
                % (group, at, group, at, at, b"%d" % group * 40)
                for group in range(groups)
                for at in range(4)
            )
            (tmp_path / f"{name}{groups}.jsonl").write_bytes(b"".join(lines))
        files = [tmp_path / f"{name}{groups}.jsonl" for name in ("a", "b")]
        done = subprocess.run(
            [sys.executable, "-c", _PEAK, *files, what, tmp_path / "r.html"], capture_output=True, text=True, check=True
        )
        peaks.append(int(done.stdout))
    # 64,000 candidates: at most 36 bytes an id while a table grows, twice, 6 MB; their rows are 19 MB, as objects more.
    assert peaks[1] - peaks[0] < 10_000
