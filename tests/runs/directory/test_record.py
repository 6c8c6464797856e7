# SPDX-License-Identifier: Apache-2.0
"""The candidates of a step: all is recorded as it was, not scored stays not scored, what can't be is told."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.frozen import freeze, strict_equal
from posttrain.rewards import GroupOutcome, RewardOutcome, RewardReport
from posttrain.runs.directory import Provenance, RecordedRun, RecordSettings, RunDirectory
from posttrain.runs.records import RecordedCandidate
from posttrain.schema import Observation, Trajectory
from strategies import canonical_text, finite_floats, json_values

Begin = Callable[..., RunDirectory]

FORMATS = [
    "jsonl",
    pytest.param(
        "parquet",
        marks=pytest.mark.skipif(find_spec("pyarrow") is None, reason="needs pyarrow"),
    ),
]


@pytest.mark.parametrize("kind", FORMATS)
def test_every_column_comes_back(begin: Begin, batch: Any, kind: Any) -> None:
    """What was asked, said and made of it, of scored and dropped groups alike, in the order of the rollout.

    Group g1 is worth 1.0 and 0.0: mean 0.5 and sample standard deviation sqrt(0.5), so the advantages are plus and
    minus 0.5 / (sqrt(0.5) + 1e-4).
    """
    advantage = 0.5 / (math.sqrt(0.5) + 1e-4)
    with begin(settings=RecordSettings(format=kind)) as run:
        file = run.record_step(7, list(reversed(batch.trajectories)), batch.outcome)
        assert file == run.path / "scored" / f"step-00000007.{kind}"

    def row(name: str, at: int, **more: Any) -> RecordedCandidate:
        return RecordedCandidate(
            trajectory_id=f"{name}/{at}",
            group_id=name,
            step=7,
            row_id=f"row {name}",
            prompt=f"prompt of {name}",
            reference={"of": [name]},
            completion=f"completion {at}",
            finish_reason="stop",
            completion_token_count=10 + at,
            **more,
        )

    gone: dict[str, Any] = {"reward": {}, "advantage": None, "dropped_because": "scripted: RewardUnavailableError"}
    found = list(RecordedRun(run.path).candidates())
    assert found == [
        row("g1", 0, reward={"task": 1.0, "final": 1.0}, advantage=found[0].advantage),
        row("g1", 1, reward={"task": 0.0, "final": 0.0}, advantage=found[1].advantage),
        row("g2", 0, **gone),
        row("g2", 1, **gone),
    ]
    assert [found[0].advantage, found[1].advantage] == pytest.approx([advantage, -advantage], rel=1e-12)
    assert [found[0].advantage, found[1].advantage] == [each.advantage for each in batch.trajectories[:2]]


def test_the_lines_are_those_of_the_layout(begin: Begin, batch: Any) -> None:
    """JSON lines whose columns are a recorded candidate's; a dropped one has no number in it at all."""
    with begin() as run:
        lines = run.record_step(7, batch.trajectories, batch.outcome).read_bytes().splitlines()
    assert [msgspec.json.decode(line, type=RecordedCandidate).trajectory_id for line in lines] == [
        "g1/0",
        "g1/1",
        "g2/0",
        "g2/1",
    ]
    assert json.loads(lines[3]) == {
        "trajectory_id": "g2/1",
        "group_id": "g2",
        "step": 7,
        "row_id": "row g2",
        "prompt": "prompt of g2",
        "reference": {"of": ["g2"]},
        "completion": "completion 1",
        "finish_reason": "stop",
        "completion_token_count": 11,
        "reward": {},
        "advantage": None,
        "dropped_because": "scripted: RewardUnavailableError",
    }


@pytest.mark.parametrize("kind", FORMATS)
def test_not_scored_survives_save_and_load(begin: Begin, scored: Callable[..., Any], kind: Any) -> None:
    """Of t1 with reward 1.0 and t2 that was not scored the mean is 1.0, not 0.5, and t2 is counted as not scored."""
    batch = scored({"t1": [1.0], "t2": None}, size=1)
    with begin(settings=RecordSettings(format=kind)) as run:
        file = run.record_step(1, batch.trajectories, batch.outcome)
    if kind == "jsonl":
        assert [json.loads(line)["reward"] for line in file.read_bytes().splitlines()] == [
            {"task": 1.0, "final": 1.0},
            {},
        ]
    found = RecordedRun(run.path).tally()
    assert (found.scored, found.not_scored) == (1, {"scripted: RewardUnavailableError": 1})
    assert {name: (it.count, it.mean) for name, it in found.rewards.items()} == {"task": (1, 1.0), "final": (1, 1.0)}
    again = [
        (each.reward, each.advantage, each.dropped_because is None) for each in RecordedRun(run.path).candidates(1)
    ]
    assert again == [({"task": 1.0, "final": 1.0}, 0.0, True), ({}, None, False)]


def _hand_made(value: Any, *, advantage: Any = 0.0, **fields: Any) -> tuple[list[Trajectory], RewardOutcome]:
    """One candidate ``t`` of the group ``g`` with a reward as nobody has checked it."""
    obs = Observation(id="g", prompt=fields.pop("prompt", "p"), reference=fields.pop("reference", None))
    one = Trajectory(trajectory_id="t", group_id="g", obs=obs, **{"completion": "c", **fields})
    group = GroupOutcome(
        group_id="g", trajectory_ids=("t",), terms={"task": (value,)}, final=(0.5,), advantages=(advantage,)
    )
    return [one], RewardOutcome((group,), RewardReport(namespace="train"), ("task",))


@pytest.mark.parametrize("kind", FORMATS)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(prompt=json_values, reference=json_values, value=finite_floats, completion=st.text(max_size=20))
def test_every_input_and_every_number_comes_back_exactly(
    tmp_path_factory: pytest.TempPathFactory,
    batch: Any,
    kind: Any,
    prompt: Any,
    reference: Any,
    value: float,
    completion: str,
) -> None:
    """JSON inputs keep their types, floats their bits and texts their characters, also line feeds of other alphabets.

    Half characters apart, which no file can hold: those are refused.
    """
    trajectories, outcome = _hand_made(
        value, advantage=-value, prompt=prompt, reference=reference, completion=completion
    )
    root = tmp_path_factory.mktemp("run")
    provenance = Provenance.of(batch.worker.stage)
    with RunDirectory.create(
        root, "r", config_text="", provenance=provenance, settings=RecordSettings(format=kind)
    ) as run:
        try:
            canonical_text([prompt, reference]).encode()
        except UnicodeEncodeError:
            with pytest.raises(RewardContractError, match=r"t: (prompt|reference): the text has half a character"):
                run.record_step(1, trajectories, outcome)
            assert RecordedRun(run.path).steps == []
            return
        run.record_step(1, trajectories, outcome)
    (found,) = RecordedRun(run.path).candidates()
    assert strict_equal(freeze(found.prompt), freeze(prompt))
    assert strict_equal(freeze(found.reference), freeze(reference))
    assert (repr(found.reward["task"]), repr(found.advantage)) == (repr(value), repr(-value))
    assert found.completion == completion


@pytest.mark.parametrize(
    ("made", "fault"),
    [
        (_hand_made(math.nan), r"t: reward 'task': expected a finite float, got nan \(float\)"),
        (_hand_made(math.inf), r"t: reward 'task': expected a finite float, got inf \(float\)"),
        (_hand_made(None), r"t: reward 'task': expected a finite float, got None"),
        (_hand_made(True), r"t: reward 'task': expected a finite float, got True \(bool\)"),
        (_hand_made(np.float64(1)), r"t: reward 'task': expected a finite float, got np.float64\(1.0\)"),
        (_hand_made(0.5, advantage=math.nan), r"t: advantage: expected a finite float, got nan \(float\)"),
        (_hand_made(0.5, prompt={"a": math.nan}), r"t: prompt.a: expected a finite number, got nan; record without"),
        (_hand_made(0.5, reference=b"x"), r"t: reference: expected a JSON type, got b'x' \(bytes\).*; record without"),
        (
            _hand_made(0.5, completion="a\ud800"),
            r"t: completion: the text has half a character .* at 1, .*: replace it",
        ),
        (_hand_made(0.5, policy_info={"finish_reason": 3}), r"t: finish_reason: expected a string, got 3"),
        (_hand_made(0.5, policy_info={"completion_token_count": -1}), r"t: completion_token_count: expected a count"),
        (_hand_made(0.5, policy_info={"completion_token_count": 1.0}), r"t: completion_token_count: expected a count"),
    ],
    ids=lambda it: it if isinstance(it, str) else "",
)
@pytest.mark.parametrize("kind", FORMATS)
def test_what_no_file_can_hold_is_refused_and_nothing_is_written(
    begin: Begin, made: Any, fault: str, kind: Any
) -> None:
    """A NaN never becomes null: the candidate and the place are named, and the step can still be recorded."""
    with begin(settings=RecordSettings(format=kind)) as run:
        with pytest.raises(RewardContractError, match=rf"step 3 can't be recorded:\n  {fault}"):
            run.record_step(3, *made)
        assert list((run.path / "scored").iterdir()) == []
        run.record_step(3, *_hand_made(0.5))
        assert RecordedRun(run.path).steps == [3]


def test_every_fault_of_a_step_is_named_at_once(begin: Begin, batch: Any) -> None:
    """Each candidate and each place is listed; a shared input is told once for its group."""
    for each in batch.trajectories:
        each.obs.reference = {1, 2}
    batch.trajectories[3].completion = "\ud800"
    with begin() as run, pytest.raises(RewardContractError, match="step 1 can't be recorded") as caught:
        run.record_step(1, batch.trajectories, batch.outcome)
    # Each of the four has a set of its own here, so the same fault stands with each of them.
    named = [line.split(":")[0].strip() for line in str(caught.value).splitlines()[1:]]
    assert named == ["g1/0", "g1/1", "g2/0", "g2/1", "g2/1"]


def test_inputs_can_be_left_out(begin: Begin, batch: Any) -> None:
    """Without inputs, prompt and reference may be anything at all, and are not recorded; the rest is."""
    for each in batch.trajectories:
        each.obs.prompt = object()
    with begin(settings=RecordSettings(inputs=False)) as run:
        run.record_step(1, batch.trajectories, batch.outcome)
    found = list(RecordedRun(run.path).candidates())
    assert [(each.prompt, each.reference) for each in found] == [(None, None)] * 4
    assert [each.completion for each in found] == ["completion 0", "completion 1"] * 2


def test_only_the_trajectories_of_the_outcome_are_recorded(begin: Begin, scored: Callable[..., Any]) -> None:
    """Missing, foreign, doubled and moved candidates are all named, and nothing is written."""
    batch = scored({"g1": [1.0, 0.0], "g2": [1.0, 0.0], "g3": [1.0, 0.0]})
    one, two, three, four, five, _ = batch.trajectories
    stranger = Trajectory(trajectory_id="x", group_id="g1", obs=one.obs)
    three.group_id = "g1"
    with begin() as run:
        with pytest.raises(RewardContractError, match="the trajectories are not those") as caught:
            run.record_step(1, [one, two, one, stranger, three, four, five], batch.outcome)
        assert RecordedRun(run.path).steps == []
    assert str(caught.value).splitlines()[1:] == [
        "  'g1/0' stands more than once",
        "  'x' is not in the outcome",
        "  'g2/0' is in group 'g1', but was scored in 'g2'",
        "  'g3/1' is in the outcome only",
    ]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("later", FORMATS)
def test_no_step_is_recorded_twice(begin: Begin, batch: Any, kind: Any, later: Any) -> None:
    """A step that is there is refused, in the other format too, and stays as it was."""
    with begin(settings=RecordSettings(format=kind)) as run:
        file = run.record_step(4, batch.trajectories, batch.outcome)
        before = file.read_bytes()
    with RunDirectory.open(run.path, settings=RecordSettings(format=later)) as run:
        with pytest.raises(RewardContractError, match="step 4 is recorded already; rewind to the step"):
            run.record_step(4, batch.trajectories, batch.outcome)
        run.record_step(3, batch.trajectories, batch.outcome)
        assert run.last_step == 4
    assert file.read_bytes() == before
    assert [each.step for each in RecordedRun(run.path).candidates()] == [3] * 4 + [4] * 4


@pytest.mark.parametrize("step", [-1, 100_000_000, True, 1.0, None], ids=repr)
def test_a_step_is_checked_first(begin: Begin, batch: Any, step: Any) -> None:
    """What is no step is refused everywhere."""
    with begin() as run:
        works: list[Callable[[], object]] = [
            lambda: run.record_step(step, batch.trajectories, batch.outcome),
            lambda: run.save_state(step, batch.worker.stage_identity, batch.report),
            lambda: run.metrics.write(step, {}),
        ]
        for work in works:
            with pytest.raises(RewardContractError, match="step: expected an int from 0 to 99,999,999"):
                work()


def test_a_kept_failure_leaves_no_temporary(begin: Begin, batch: Any) -> None:
    """When the folder can't be written, the error names the file, and the run goes on once it can."""
    with begin() as run:
        (run.path / "scored").rmdir()
        (run.path / "scored").touch()
        with pytest.raises(RewardConfigError, match=r"can't write .*step-00000001.jsonl"):
            run.record_step(1, batch.trajectories, batch.outcome)
        (run.path / "scored").unlink()
        (run.path / "scored").mkdir()
        run.record_step(1, batch.trajectories, batch.outcome)
    assert [each.name for each in (run.path / "scored").iterdir()] == ["step-00000001.jsonl"]


def test_parquet_is_plain_columns(begin: Begin, batch: Any, scored: Callable[..., Any]) -> None:
    """Other tools see texts as texts, `reward` as a struct of its terms, and null, never 0.0, where nothing was scored.

    References that are no texts are JSON text, which the column's metadata says.
    """
    parquet = pytest.importorskip("pyarrow.parquet")
    with begin(settings=RecordSettings(format="parquet")) as run:
        table = parquet.read_table(run.record_step(7, batch.trajectories, batch.outcome))
    assert table.column_names == list(RecordedCandidate.__struct_fields__)
    assert table["prompt"].to_pylist() == ["prompt of g1"] * 2 + ["prompt of g2"] * 2
    assert table["reference"].to_pylist() == ['{"of":["g1"]}'] * 2 + ['{"of":["g2"]}'] * 2
    assert [table.schema.field(name).metadata for name in ("prompt", "reference")] == [
        {b"posttrain": b"text"},
        {b"posttrain": b"json"},
    ]
    assert table["reward"].to_pylist() == [{"task": 1.0, "final": 1.0}, {"task": 0.0, "final": 0.0}, None, None]
    assert table["advantage"].null_count == 2


def test_parquet_needs_pyarrow(begin: Begin, batch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the error says in one line what to install, and the step is not recorded."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with begin(settings=RecordSettings(format="parquet")) as run:
        with pytest.raises(RewardConfigError, match=r"^Parquet needs pyarrow: pip install 'posttrain\[report\]'$"):
            run.record_step(1, batch.trajectories, batch.outcome)
        assert RecordedRun(run.path).steps == []


def test_the_path_may_be_text(begin: Begin, batch: Any) -> None:
    """A path is given as text or as a path, to writer and reader."""
    run = begin()
    run.close()
    with RunDirectory.open(str(run.path)) as again:
        assert again.path == Path(str(run.path))
    assert repr(RecordedRun(str(run.path))) == f"RecordedRun({str(run.path)!r})"
