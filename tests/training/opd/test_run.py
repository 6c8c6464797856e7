# SPDX-License-Identifier: Apache-2.0
"""`run_opd` and its command: real runs of some steps, what they record, and what a resume refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from integrations.spy import QUIET
from posttrain.errors import RewardConfigError
from posttrain.runs import load_config
from posttrain.runs.config import RLConfig
from posttrain.runs.directory import RecordedRun, read_provenance
from posttrain.runs.records import PROVENANCE_FILE
from posttrain.training.opd import run_opd

pytestmark = QUIET


def _config(folder: Path, *overrides: str) -> RLConfig:
    """Two steps of two groups of two, a validation before the first and after the last."""
    given = [
        "rl.reward=arithmetic",
        "rl.group_size=2",
        "rl.data.source=function",
        "rl.data.path=posttrain.training.tiny.addition:training_rows",
        "rl.policy.model=tiny",
        "rl.policy.device=cpu",
        "rl.opd.teacher=tiny",
        "rl.opd.teacher_seed=7",
        "rl.opd.teacher_warm_start_steps=2",
        "rl.grpo.steps=2",
        "rl.grpo.prompts_per_step=2",
        "rl.grpo.learning_rate=0.001",
        "rl.grpo.max_completion_length=4",
        "rl.grpo.save_steps=2",
        "rl.validation.enabled=true",
        "rl.validation.source=function",
        "rl.validation.path=training.opd.few_rows:held_out",
        "rl.validation.n_generation=2",
        "rl.validation.interval=2",
        f'rl.run.directory="{folder}"',
        "rl.run.name=first",
    ]
    return load_config(None, [*given, *overrides])


def _metrics(folder: Path) -> dict[int, dict[str, float]]:
    return {step: dict(found) for step, found in RecordedRun(folder).metrics().items()}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a run of two steps."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield run_opd(_config(folder)).path


@pytest.mark.slow
def test_a_run_records_divergences_and_observed_rewards(done: Path) -> None:
    """Each step has the divergence of its samples, each validation that of the held-out ones; rewards are recorded."""
    metrics = _metrics(done)
    assert sorted(metrics) == [0, 1, 2]
    for step in (1, 2):
        assert metrics[step]["train/opd/reverse_kl"] > 0
        # Pure distillation: the loss is the divergence, whatever the rewards are.
        assert metrics[step]["trainer/loss"] == pytest.approx(metrics[step]["train/opd/reverse_kl"], rel=1e-4)
        assert metrics[step]["train/group/count"] == 2
    for step in (0, 2):
        assert metrics[step]["val/opd/reverse_kl"] > 0
        assert "val/reward/final/mean" in metrics[step]
    assert "val/opd/reverse_kl" not in metrics[1]
    assert (done / "report.html").is_file()


@pytest.mark.slow
def test_a_resume_goes_on_as_if_it_had_not_stopped_and_refuses_another_teacher(done: Path, tmp_path: Path) -> None:
    """Another teacher is refused by the digest of its weights; with the same one the numbers are the same."""
    recorded: Any = read_provenance(done / PROVENANCE_FILE).data["fixed"]
    digest = recorded["teacher"]["weights_sha256"]
    before = _metrics(done)
    with pytest.raises(RewardConfigError, match=rf"(?s)something else.*teacher: .*weights_sha256.*{digest[:12]}"):
        run_opd(_config(done.parent, "rl.opd.teacher_seed=8", "rl.grpo.steps=4"), resume=True)
    assert _metrics(done) == before
    run_opd(_config(done.parent, "rl.grpo.steps=4"), resume=True)
    whole = run_opd(_config(tmp_path, "rl.grpo.steps=4")).path
    ended, expected = _metrics(done), _metrics(whole)
    assert read_provenance(whole / PROVENANCE_FILE).data["fixed"] == recorded
    for step in (3, 4):
        for name in ("train/opd/reverse_kl", "train/reward/final/mean"):
            assert ended[step][name] == expected[step][name], (step, name)
    assert ended[4]["val/opd/reverse_kl"] == expected[4]["val/opd/reverse_kl"]


@pytest.mark.slow
def test_with_alpha_the_sampled_form_runs(tmp_path: Path) -> None:
    """The loss is no longer the divergence alone."""
    overrides = ("rl.opd.alpha=2", "rl.opd.divergence=sampled", "rl.grpo.steps=1", "rl.validation.enabled=false")
    found = _metrics(run_opd(_config(tmp_path, "rl.reward=nonempty", *overrides)).path)[1]
    assert "train/opd/reverse_kl" in found
    assert "val/opd/reverse_kl" not in found


@pytest.mark.parametrize(
    ("override", "text"),
    [
        ("rl.opd.teacher=null", "rl.opd.teacher: missing; expected tiny, gguf:FILE"),
        ("rl.grpo.beta=0.1", "rl.grpo.beta=0.1: it holds the policy to its own start"),
        ("rl.grpo.trl.entropy_coef=0.1", "rl.grpo.trl.entropy_coef: entropy is part of the divergence"),
    ],
)
def test_settings_that_do_not_fit_are_refused(tmp_path: Path, override: str, text: str) -> None:
    """Each key is named, and nothing is made."""
    with pytest.raises(RewardConfigError, match=text):
        run_opd(_config(tmp_path / "runs", override))
    assert not (tmp_path / "runs").exists()


def test_a_teacher_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The error says that it is the teacher, not the policy."""
    config = _config(tmp_path, f'rl.opd.teacher="gguf:{tmp_path}/none.gguf"')
    with pytest.raises(RewardConfigError, match=r"rl\.opd\.teacher, which is loaded as a policy is: .*none\.gguf"):
        run_opd(config)


def test_importing_the_package_loads_no_torch(fresh_python: Callable[[str], str]) -> None:
    """Neither does refusing a config."""
    program = """
import sys
from posttrain.errors import RewardConfigError
from posttrain.runs import load_config
from posttrain.training.opd import run_opd
try:
    run_opd(load_config(None, ["rl.reward=arithmetic", "rl.group_size=2"]))
except RewardConfigError as error:
    print("rl.opd.teacher" in str(error), "torch" in sys.modules)
"""
    assert fresh_python(program).split() == ["True", "False"]


def test_the_command_says_what_is_missing(command: Callable[..., Any]) -> None:
    """A config without a teacher ends the command before it begins a run; --resume wants a name."""
    missing = command("opd", "rl.reward=arithmetic", "rl.group_size=2")
    assert (missing.returncode, "rl.opd.teacher: missing" in missing.stderr) == (2, True)
    nameless = command("opd", "--resume", "rl.reward=arithmetic", "rl.group_size=2")
    assert (nameless.returncode, "--resume needs the name of the run" in nameless.stderr) == (2, True)


def test_the_recipe_can_be_loaded(repository: Path) -> None:
    """It is pure distillation from a teacher that is better prepared than the policy."""
    config = load_config(repository / "recipes" / "opd_tiny.toml")
    assert config.opd.alpha == 0
    assert config.opd.teacher_warm_start_steps > config.policy.warm_start_steps
