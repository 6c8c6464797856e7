# SPDX-License-Identifier: Apache-2.0
"""What comes before what: everything that can be refused is refused before a model, or torch at all, is loaded."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from posttrain.errors import RewardConfigError
from posttrain.runs import load_config
from posttrain.training.online.settings import OURS, check_settings

Keys = Callable[..., list[str]]

PROGRAM = """
import json, sys
from posttrain.cli import main
sys.argv = ["posttrain", "grpo", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    print(json.dumps([end.code, sorted({"torch", "transformers", "trl", "datasets"} & set(sys.modules))]))
"""


@pytest.mark.parametrize(
    ("override", "code", "told"),
    [
        ("rl.reward=nobody", 2, "nobody"),
        ("rl.data.response_column=anser", 2, "no column 'anser'"),
        ("rl.validation.path=posttrain.nowhere:rows", 2, "module 'posttrain.nowhere' can't be found"),
        ("rl.policy.model=null", 2, "rl.policy.model: missing"),
        ("rl.grpo.trl.temperature=1", 2, "rl.grpo.trl.temperature: that is decided by rl.grpo.temperature"),
    ],
)
def test_a_refusal_comes_before_torch(tmp_path: Path, keys: Keys, override: str, code: int, told: str) -> None:
    """The exit code is that of preflight, nothing heavy was imported, and no run's folder was made."""
    given = [each for each in keys(tmp_path / "runs", "a") if each.partition("=")[0] != override.partition("=")[0]]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *given, override],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert json.loads(done.stdout.splitlines()[-1]) == [code, []], done.stderr
    assert told in done.stderr + done.stdout
    assert not (tmp_path / "runs").exists()


def config_with(keys: Keys, *overrides: str) -> None:
    """Check the settings of a small run with these."""
    check_settings(load_config(None, keys(Path("runs"), "a", *overrides)))


def test_every_missing_key_is_told_at_once(keys: Keys) -> None:
    """What a run needs, and what a group of one can't teach."""
    with pytest.raises(RewardConfigError, match="can't be trained with") as caught:
        config_with(keys, "rl.data=null", "rl.policy.model=null", "rl.validation.path=null", "rl.group_size=1")
    lines = [line.strip().partition(":")[0] for line in str(caught.value).splitlines()[1:]]
    assert lines == ["rl.data.path", "rl.policy.model", "rl.validation.path", "rl.group_size=1"]


def test_a_batch_that_can_not_be_shared_out(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over processes, and over passes of one process."""
    with pytest.raises(RewardConfigError, match="completions_per_device=3 does not divide the 8 completions"):
        config_with(keys, "rl.grpo.completions_per_device=3")
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(RewardConfigError, match=r"2 x rl\.group_size=4 = 8 completions can't be shared out"):
        config_with(keys)


def test_settings_of_trl_that_are_ours(keys: Keys) -> None:
    """Each of them is refused with the key that decides it, and each is a setting that TRL has."""
    from dataclasses import fields

    from trl.trainer.grpo_config import GRPOConfig

    assert set(OURS) <= {each.name for each in fields(GRPOConfig)}
    names = sorted(OURS)
    # An error shows the first twenty lines.
    for some in (names[at : at + 20] for at in range(0, len(names), 20)):
        with pytest.raises(RewardConfigError, match="can't be trained with") as caught:
            config_with(keys, *(f"rl.grpo.trl.{name}=1" for name in some))
        expected = [f"  rl.grpo.trl.{name}: that is decided by {OURS[name]}; set it there" for name in some]
        assert str(caught.value).splitlines()[1:] == expected


def test_settings_that_trl_does_not_have(keys: Keys) -> None:
    """A slip is named with what was probably meant; a value that TRL refuses, with its reason."""
    from posttrain.training.online.arguments import trainer_arguments

    with pytest.raises(RewardConfigError, match=r"TRL has no such setting; did you mean loss_type\?"):
        trainer_arguments(load_config(None, keys(Path("runs"), "a", "rl.grpo.trl.los_type=grpo")))
    args = trainer_arguments(load_config(None, keys(Path("runs"), "a", "rl.grpo.completions_per_device=2")))
    # Two groups of four in one process: four passes of two completions.
    assert (args.per_device_train_batch_size, args.gradient_accumulation_steps) == (2, 4)
    assert (args.generation_batch_size, args.num_generations, args.max_steps) == (8, 4, 4)


def test_resume_needs_a_name(command: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """Which run is meant can't be guessed."""
    done = command("grpo", "--resume", "rl.reward=arithmetic", "rl.group_size=4")
    assert done.returncode == 2
    assert "--resume needs the name of the run: --run NAME, or rl.run.name" in done.stderr
