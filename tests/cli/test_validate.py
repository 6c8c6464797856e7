# SPDX-License-Identifier: Apache-2.0
"""`posttrain validate`: a validation is begun, resumed and told, and each kind of failure has its exit code."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.report import open_scores
from posttrain.runs import load_config
from posttrain.runs.directory import Provenance, RecordedRun, RunDirectory

GSM8K = ("rl.reward=gsm8k", "rl.group_size=8", "rl.validation.n_generation=2")
FLAKY = ("rl.reward=flaky", "rl.reward_catalog=rewards.py:catalog", "rl.group_size=8", "rl.validation.n_generation=2")
NAMES = ["metrics.json", "result.json", "rollouts.jsonl", "scores.identity.json", "scores.jsonl"]

Command = Callable[..., Any]


def names(folder: Path) -> list[str]:
    """What lies in a folder."""
    return sorted(each.name for each in folder.iterdir())


def test_a_validation_is_written_and_told(command: Command, four: Path, tmp_path: Path) -> None:
    """A fact a line on standard output, best of n and pass@k among them; five files in the folder."""
    done = command("validate", *GSM8K, "--rollouts", four, "--out", "v")
    assert (done.returncode, done.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    # gsm8k gives 1, 0 and 1, 1: bests 1 and 1, pass@1 (1/2 + 1) / 2.
    assert lines[:7] == [
        "groups 2",
        "candidates 4",
        "reward 0.7500 ± 0.4330, 0 to 1",
        "gsm8k 0.7500",
        "zero spread 50.0% of the scored groups",
        "truncated 25.0%",
        "unknown finish 50.0%",
    ]
    assert re.match(r"slowest \d\.\d\d s in gsm8k", lines[7])
    assert lines[8:11] == [
        "best of 2, final 1.0000",
        "pass@1, gsm8k 0.7500",
        "pass@2, gsm8k 1.0000",
    ]
    assert re.fullmatch(r"done in \d+\.\d s, written to v", lines[11])
    assert len(lines) == 12
    assert names(tmp_path / "v") == NAMES
    metrics = json.loads((tmp_path / "v/metrics.json").read_text())
    assert metrics["val/reward/gsm8k/pass_at_1"] == 0.75
    assert json.loads((tmp_path / "v/scores.identity.json").read_text())["step"] == 0


def test_a_config_file_describes_the_run(
    command: Command, four: Path, written: Callable[..., Path], tmp_path: Path
) -> None:
    """Providers, group size and columns come from the config; overrides win over it."""
    written(
        "run.toml",
        '[rl]\nreward = "nonempty"\ngroup_size = 8\n[rl.validation]\nreward = "gsm8k"\nn_generation = 4\n'
        '[rl.data]\ncompletion_column = "text"\n',
    )
    written("other.jsonl", four.read_text().replace('"completion"', '"text"'))
    options = ("--config", "run.toml", "--rollouts", "other.jsonl", "--out", "v", "--step", "7")
    assert command("validate", "rl.validation.n_generation=2", *options).returncode == 0
    record = json.loads((tmp_path / "v/scores.identity.json").read_text())
    assert (record["step"], record["n_generation"]) == (7, 2)
    assert [each["provider"] for each in record["providers"]] == ["gsm8k"]


def test_rollouts_without_group_ids(command: Command, written: Callable[..., Path], tmp_path: Path) -> None:
    """One completion per prompt, a row each, is grouped by --group-by."""
    written("flat.jsonl", [{"completion": "#### 4", "reference": "4"}, {"completion": "#### 5", "reference": "4"}])
    options = ("rl.reward=gsm8k", "rl.group_size=8", "--rollouts", "flat.jsonl", "--out", "v")
    assert command("validate", *options, "--group-by", "consecutive:1").returncode == 0
    assert json.loads((tmp_path / "v/metrics.json").read_text())["val/reward/gsm8k/pass_at_1"] == 0.5


def test_what_was_interrupted_is_resumed(
    command: Command, pairs: Callable[..., Path], flaky: str, tmp_path: Path
) -> None:
    """A broken provider leaves it pending and says so; --resume goes on without the rollouts once it is mended."""
    rollouts = pairs("good", "fine", "bad", "last")
    failed = command("validate", *FLAKY, "--rollouts", rollouts, "--out", "v")
    assert failed.returncode == 3
    assert "provider 'flaky', group 'g2', trajectory 'g2/0'" in failed.stderr
    assert "The request is kept in v/failed-request.json" in failed.stderr
    assert "go on with --resume" in failed.stderr
    assert failed.stdout == ""
    rollouts.unlink()
    # The catalog's file is its identity: mending it makes it another one.
    text = (tmp_path / "rewards.py").read_text()
    (tmp_path / "rewards.py").write_text(text.replace('"bad"', '"worse"'))
    refused = command("validate", *FLAKY, "--resume", "--out", "v")
    assert refused.returncode == 2
    assert re.search(r'providers\[0\]\.catalog: recorded "rewards\.py@sha256:.*", now "rewards\.py@', refused.stderr)
    (tmp_path / "rewards.py").write_text(text)
    again = command("validate", *FLAKY, "--resume", "--out", "v")
    assert again.returncode == 3
    assert "group 'g2'" in again.stderr


def test_resume_begins_where_none_is(command: Command, four: Path, tmp_path: Path) -> None:
    """The same line can be run until it is done; of a complete validation it tells the saved result."""
    line = ("validate", *GSM8K, "--rollouts", four, "--out", "v", "--resume")
    first = command(*line)
    assert first.returncode == 0
    before = {name: (tmp_path / "v" / name).read_bytes() for name in NAMES}
    second = command(*line)
    assert second.returncode == 0
    assert "2 groups were scored before" in second.stdout
    assert "slowest" not in second.stdout
    assert "pass@2, gsm8k" in second.stdout
    assert {name: (tmp_path / "v" / name).read_bytes() for name in NAMES} == before


def test_other_rollouts_are_not_resumed(command: Command, four: Path, written: Callable[..., Path]) -> None:
    """Rollouts that are named at a resume have to be the saved ones."""
    assert command("validate", *GSM8K, "--rollouts", four, "--out", "v").returncode == 0
    written("other.jsonl", four.read_text().replace("#### 5", "#### 4"))
    done = command("validate", *GSM8K, "--rollouts", "other.jsonl", "--out", "v", "--resume")
    assert done.returncode == 2
    assert "rollouts.sha256: recorded " in done.stderr


def test_it_is_not_overwritten_unless_asked(command: Command, four: Path, tmp_path: Path) -> None:
    """Without --resume or --restart what is there stays; --restart begins anew, also with its own rollouts."""
    line = ("validate", "--rollouts", four, "--out", "v")
    assert command(*line, *GSM8K).returncode == 0
    refused = command(*line, *GSM8K)
    assert refused.returncode == 2
    assert (
        "v holds a validation that is complete: go on with --resume, or throw it away with --restart" in refused.stderr
    )
    other = ("rl.reward=nonempty", *GSM8K[1:])
    anew = command("validate", *other, "--rollouts", "v/rollouts.jsonl", "--out", "v", "--restart")
    assert anew.returncode == 0
    assert json.loads((tmp_path / "v/metrics.json").read_text())["val/reward/nonempty/mean"] == 1.0
    assert names(tmp_path / "v") == NAMES


def test_a_service_that_is_down_is_four(command: Command, pairs: Callable[..., Path], flaky: str) -> None:
    """What an outside service could not answer stays pending."""
    done = command("validate", *FLAKY, "--rollouts", pairs("good", "down"), "--out", "v")
    assert done.returncode == 4
    assert done.stderr.startswith("posttrain: unavailable: provider 'flaky', group 'g1', trajectory 'g1/0': 503 from")


def test_dropped_groups_are_counted(command: Command, pairs: Callable[..., Path], flaky: str, tmp_path: Path) -> None:
    """With drop_group what could not be scored is left out and told, in no mean."""
    drop = ("rl.reward_stage.on_unavailable=drop_group", "rl.reward_stage.max_dropped_fraction=0.5")
    done = command("validate", *FLAKY, *drop, "--rollouts", pairs("good", "down"), "--out", "v")
    assert done.returncode == 0
    assert re.search(r"^groups +2, 1 dropped +$", done.stdout, re.MULTILINE)
    metrics = json.loads((tmp_path / "v/metrics.json").read_text())
    # Lengths 4 and 2 of the one group that was scored.
    assert metrics["val/reward/length/mean"] == 3.0
    assert metrics["val/reward/length/best_of_2"] == 4.0
    assert metrics["val/group/dropped_count"] == 1.0


def test_rows_at_fault_are_three(command: Command, four: Path, tmp_path: Path) -> None:
    """Groups of another size than n_generation are refused before anything is kept."""
    done = command("validate", *GSM8K[:2], "rl.validation.n_generation=4", "--rollouts", four, "--out", "v")
    assert done.returncode == 3
    assert "group 'a'" in done.stderr
    assert names(tmp_path / "v") == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--rollouts", "r.jsonl"), "--out or --run missing"),
        (("--out", "v"), "--rollouts missing"),
        (("--rollouts", "r.jsonl", "--out", "v", "--run", "r", "--step", "1"), "give one of them"),
        (("--rollouts", "r.jsonl", "--run", "r"), "--run needs --step"),
        (("--rollouts", "r.jsonl", "--out", "v", "--resume", "--restart"), "--resume goes on"),
        (("--out", "v", "--resume", "--group-by", "consecutive:1"), "give --rollouts too"),
        (("--out", "v", "--resume"), "no validation has begun in v"),
        (("--rollouts", "gone.jsonl", "--out", "v"), "gone.jsonl"),
        (("--rollouts", "r.jsonl", "--out", "v", "--group-by", "consecutive:0"), "whole number of at least 1"),
        (("--rollouts", "r.jsonl", "--run", "nowhere", "--step", "1"), "nowhere is no run"),
        (("--rollouts", "r.jsonl", "--out", "v", "rl.validation.rewards=x"), "rl.validation.rewards"),
        (("--rollouts", "r.jsonl", "--out", "v", "rl.validation.reward=gsm9k"), "did you mean 'gsm8k'"),
    ],
)
def test_bad_usage_is_two(
    command: Command, four: Path, arguments: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    """What is asked for wrongly is said, and nothing is made."""
    four.rename(tmp_path / "r.jsonl")
    done = command("validate", *GSM8K, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "v").exists() or names(tmp_path / "v") == []


def test_every_fault_of_usage_is_told_at_once(command: Command) -> None:
    """Three mistakes, three lines."""
    done = command("validate", *GSM8K, "--run", "r", "--out", "v", "--restart", "--resume", "--group-by", "x")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 4


@pytest.fixture
def run(tmp_path: Path, flaky: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that trained with `flaky` for ten steps and validates with it."""
    monkeypatch.chdir(tmp_path)
    config = load_config(None, FLAKY)
    made = Provenance.of(config.worker().stage, validation=config.rewards("val"))
    with RunDirectory.create("runs", "first", config_text=config.to_toml(), provenance=made) as directory:
        directory.metrics.write(10, {"train/reward/final/mean": 1.5})
    return tmp_path / "runs/first"


def test_a_run_is_validated_by_its_own_config(command: Command, pairs: Callable[..., Path], run: Path) -> None:
    """The config is the run's, the folder is that of the step, and the metrics join those of the step."""
    done = command("validate", "--run", "runs/first", "--step", "10", "--rollouts", pairs("good", "ok"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "added to the run's metrics at step 10" in done.stdout
    assert names(run / "validation/step-00000010") == NAMES
    metrics = RecordedRun(run).metrics()[10]
    assert metrics["train/reward/final/mean"] == 1.5
    # Lengths 4, 2, 2, 2.
    assert metrics["val/reward/final/mean"] == 2.5
    assert metrics["val/reward/final/best_of_2"] == 3.0


def test_metrics_join_the_run_once(command: Command, pairs: Callable[..., Path], run: Path) -> None:
    """Resuming a complete validation adds nothing a second time."""
    line = ("validate", "--run", "runs/first", "--step", "10", "--rollouts", pairs("good", "ok"), "--resume")
    assert command(*line).returncode == 0
    before = (run / "metrics.jsonl").read_bytes()
    again = command(*line)
    assert again.returncode == 0
    assert "the run has metrics of a validation at step 10 already, and they stay" in again.stdout
    assert (run / "metrics.jsonl").read_bytes() == before


def test_a_run_that_is_being_written_keeps_its_validation(
    command: Command, pairs: Callable[..., Path], run: Path
) -> None:
    """While training has the run open the validation is complete on the disk; its metrics are added later."""
    line = ("validate", "--run", "runs/first", "--step", "10", "--rollouts", pairs("good", "ok"), "--resume")
    with RunDirectory.open(run):
        busy = command(*line)
    assert busy.returncode == 2
    assert "is being written by another process" in busy.stderr
    assert "The validation is complete in runs/first/validation/step-00000010" in busy.stderr
    assert names(run / "validation/step-00000010") == NAMES
    assert command(*line).returncode == 0
    assert RecordedRun(run).metrics()[10]["val/reward/final/mean"] == 2.5


def test_a_run_is_held_to_its_catalog(command: Command, pairs: Callable[..., Path], run: Path, tmp_path: Path) -> None:
    """A catalog that changed since the run began, or another one, does not validate it."""
    rollouts = pairs("good", "ok")
    line = ("validate", "--run", "runs/first", "--step", "10", "--rollouts", rollouts)
    other = command(*line, "rl.reward_catalog=null", "rl.reward=nonempty")
    assert other.returncode == 2
    assert "'flaky', catalog: none" in other.stderr
    text = (tmp_path / "rewards.py").read_text()
    (tmp_path / "rewards.py").write_text(text.replace("float(len", "2.0 * float(len"))
    changed = command(*line)
    assert changed.returncode == 2
    assert "not the one that the run is recorded with" in changed.stderr
    assert not (run / "validation").exists()
    (tmp_path / "rewards.py").write_text(text)
    # Another name of the same catalog is what validation may choose.
    assert command(*line, "rl.validation.reward=nonempty").returncode == 0


def test_another_step_has_another_folder(command: Command, pairs: Callable[..., Path], run: Path) -> None:
    """Each step of a run has a validation of its own."""
    rollouts = pairs("good", "ok")
    for step in ("10", "20"):
        assert command("validate", "--run", run, "--step", step, "--rollouts", rollouts).returncode == 0
    assert names(run / "validation") == ["step-00000010", "step-00000020"]
    assert set(RecordedRun(run).metrics()) == {10, 20}


def test_a_report_reads_a_validation(command: Command, four: Path, tmp_path: Path) -> None:
    """Scores and rollouts have the names and the form of a scored file, so that a report can be made of them."""
    assert command("validate", *GSM8K, "--rollouts", four, "--out", "v").returncode == 0
    done = command("report", "v/scores.jsonl", "--rollouts", "v/rollouts.jsonl", "--out", "report.html")
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 groups with 4 candidates to read" in done.stdout
    facts = open_scores(tmp_path / "v/scores.jsonl").facts
    assert facts.weights == {"gsm8k": 1.0}
    assert facts.metrics["val/reward/gsm8k/pass_at_1"] == {0: 0.75}


def test_the_help_names_every_flag(command: Command) -> None:
    """At 80 columns too."""
    done = command("validate", "--help")
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    for name in ("--config", "--rollouts", "--group-by", "--out", "--run", "--step", "--resume", "--restart"):
        assert f"  {name} " in done.stdout


def test_preflight_comes_first(command: Command, four: Path, written: Callable[..., Path], tmp_path: Path) -> None:
    """A catalog whose factory goes to the network ends as a config error, and nothing is kept."""
    written(
        "net.py",
        "import socket\n"
        "from functools import partial\n"
        "from posttrain.rewards import RewardProviderSpec, map_candidates\n"
        "def make():\n"
        "    socket.socket().close()\n"
        "    return map_candidates(lambda candidate, context: None)\n"
        "def catalog():\n"
        "    return {'net': RewardProviderSpec(factory=make, revision='1', terms=('t',))}\n",
    )
    config = ("rl.reward=net", "rl.reward_catalog=net.py:catalog", "rl.group_size=2", "rl.validation.n_generation=2")
    done = command("validate", *config, "--rollouts", four, "--out", "v")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no socket" in done.stderr
    assert not (tmp_path / "v").exists()
