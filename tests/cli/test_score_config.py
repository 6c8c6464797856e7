# SPDX-License-Identifier: Apache-2.0
"""`posttrain score` with a config: file, overrides and flags laid over each other, in this order."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

RUN = """
[rl]
reward = "gsm8k"
group_size = 2

[rl.data]
response_column = "reference"

[rl.reward_stage]
estimator = "group_mean"
weights = { gsm8k = 2 }
"""


@pytest.fixture
def stage(command: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Score with these arguments, and give what the identity beside the scores says of the stage."""

    def run(*arguments: str | Path) -> Any:
        done = command("score", *arguments, "--out", "out.jsonl", "--restart")
        assert (done.returncode, done.stderr) == (0, "")
        return json.loads((tmp_path / "out.identity.json").read_text())["stage"]

    return run


def test_a_config_says_all_that_flags_would(
    stage: Callable[..., Any], four: Path, written: Callable[..., Path], tmp_path: Path
) -> None:
    """The same scores, identity and metrics, whether a file or flags describe the run."""
    written("run.toml", RUN)
    flags = ("--reward", "gsm8k", "--group-size", "2", "--estimator", "group_mean", "--weight", "gsm8k=2")
    by_flags = stage(four, *flags)
    rows = (tmp_path / "out.jsonl").read_bytes()
    assert stage(four, "--config", "run.toml") == by_flags
    assert (tmp_path / "out.jsonl").read_bytes() == rows


def test_overrides_describe_a_run_too(stage: Callable[..., Any], four: Path) -> None:
    """Behind the rollouts, without a file."""
    got = stage(four, "rl.reward=gsm8k", "rl.group_size=2", "rl.reward_stage.weights.gsm8k=3")
    assert (got["group_size"], got["weights"], got["estimator"]) == (2, {"gsm8k": 3.0}, "group_norm")


def test_the_config_names_the_rollouts(stage: Callable[..., Any], four: Path, written: Callable[..., Path]) -> None:
    """Without the argument, `rl.data.path` is scored; the first argument may then be an override."""
    written("run.toml", f"{RUN}[rl.run]\nname = 'a'\n")
    assert stage("--config", "run.toml", f"rl.data.path={four.name}", "rl.group_size=2")["group_size"] == 2
    assert stage(f"rl.data.path={four}", "rl.group_size=2", "--config", "run.toml")["weights"] == {"gsm8k": 2.0}


def test_flags_win_over_overrides_and_these_over_the_file(
    stage: Callable[..., Any], four: Path, written: Callable[..., Path]
) -> None:
    """A flag that gives the default value wins too; one that is not given changes nothing; weights join by term."""
    written("run.toml", RUN)
    got = stage(four, "--config", "run.toml", "rl.reward_stage.estimator=leave_one_out")
    assert got["estimator"] == "leave_one_out"
    got = stage(four, "--config", "run.toml", "rl.reward_stage.estimator=leave_one_out", "--estimator", "group_norm")
    assert (got["estimator"], got["group_size"], got["weights"]) == ("group_norm", 2, {"gsm8k": 2.0})
    flags = ("--reward", "gsm8k", "--reward", "nonempty", "--weight", "nonempty=0.5", "--max-dropped-fraction", "0.2")
    got = stage(four, "--config", "run.toml", *flags)
    assert got["weights"] == {"gsm8k": 2.0, "nonempty": 0.5}
    assert [each["provider"] for each in got["providers"]] == ["gsm8k", "nonempty"]
    assert got["max_dropped_fraction"] == 0.2


@pytest.mark.parametrize(
    ("flag", "text", "told"),
    [
        ("--reward", "a b", "rl.reward[0] (--reward): provider name 'a b' (str): expected letters"),
        ("--catalog", "oops", "rl.reward_catalog (--catalog): expected package.module:factory"),
        ("--weight", "gsm8k=nan", "rl.reward_stage.weights.gsm8k (--weight): expected a finite number, got nan"),
        ("--prompt-column", "", "rl.data.prompt_column (--prompt-column): expected a text, got an empty one"),
        ("--reference-column", "prompt", "rl.data.response_column (--reference-column): the prompt and the reference"),
    ],
)
def test_a_fault_of_a_flag_names_the_flag(
    command: Callable[..., Any], four: Path, written: Callable[..., Path], flag: str, text: str, told: str
) -> None:
    """Beside those of the file and the overrides."""
    written("run.toml", RUN)
    done = command("score", four, "--config", "run.toml", "rl.data.seed=x", flag, text)
    assert done.returncode == 2
    assert done.stdout == ""
    assert told in done.stderr
    assert "rl.data.seed (override rl.data.seed=x)" in done.stderr


def test_columns_of_the_config_are_read(command: Callable[..., Any], written: Callable[..., Path]) -> None:
    """The keys of `rl.data` name the columns, and a column's flag wins."""
    written("own.jsonl", [{"group_id": "a", "text": "#### 4", "other": "#### 5", "answer": "4"}])
    data = '{ completion_column = "text", response_column = "answer" }'
    written("run.toml", f'rl = {{ reward = "gsm8k", group_size = 1, data = {data} }}\n')
    done = command("score", "own.jsonl", "--config", "run.toml")
    assert (done.returncode, done.stderr) == (0, "")
    assert "reward          1.0000" in done.stdout
    done = command("score", "own.jsonl", "--config", "run.toml", "--completion-column", "other")
    assert "reward          0.0000" in done.stdout


def test_held_out_rollouts_are_scored_as_validation_would(
    stage: Callable[..., Any], four: Path, written: Callable[..., Path]
) -> None:
    """With the namespace val: its provider, its group size; flags win there as well."""
    validation = '[rl.validation]\nreward = "exact_match"\nn_generation = 2\n'
    written("run.toml", RUN.replace("group_size = 2", "group_size = 8") + validation)
    got = stage(four, "--config", "run.toml", "--namespace", "val")
    assert ([each["provider"] for each in got["providers"]], got["group_size"]) == (["exact_match"], 2)
    got = stage(four, "--config", "run.toml", "--namespace", "val", "--reward", "gsm8k")
    assert ([each["provider"] for each in got["providers"]], got["weights"]) == (["gsm8k"], {"gsm8k": 2.0})


CATALOG = """
from functools import partial
from posttrain.rewards import RewardProviderResult, RewardProviderSpec, map_candidates

def score(candidate, context):
    return RewardProviderResult({"task": float("WORD" in candidate.completion and "nan")})

def catalog():
    return {"mine": RewardProviderSpec(factory=partial(map_candidates, score), revision="1", terms=("task",))}
"""


def test_a_catalog_file_is_found_beside_the_config(
    command: Callable[..., Any], four: Path, written: Callable[..., Path], tmp_path: Path
) -> None:
    """Wherever the command runs; a kept request is run again from anywhere, and the record names the relative path."""
    written("conf/mine.py", CATALOG.replace("WORD", "4"))
    written("conf/run.toml", 'rl = { reward = "mine", group_size = 2, reward_catalog = "mine.py:catalog" }\n')
    done = command("score", four, "--config", "conf/run.toml", "--out", "out.jsonl")
    assert done.returncode == 3
    assert "expected one finite number, got nan" in done.stderr
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    kept = tmp_path / "out.jsonl.failed-request.json"
    assert "expected one finite number, got nan" in command("score", "--replay", kept, cwd=elsewhere).stderr
    written("conf/mine.py", CATALOG.replace("WORD", "nothing"))
    done = command("score", "--replay", kept, "--config", tmp_path / "conf" / "run.toml", cwd=elsewhere)
    assert (done.returncode, done.stderr) == (0, "")
    assert command("score", four, "--config", "conf/run.toml", "--out", "out.jsonl").returncode == 0
    assert '"catalog": "mine.py@sha256:' in (tmp_path / "out.identity.json").read_text()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--config", "none.toml"), "none.toml: can't be read: No such file or directory"),
        (("--config", "run.toml"), "ROLLOUTS missing, and rl.data.path is not set"),
        (("--config", "run.toml", "rl.data.path=openai/gsm8k"), "which is read as rows of a Hugging Face source"),
        (("rl.reward=gsm8k",), "rl.group_size: missing; expected a whole number of at least 1"),
        (("four.jsonl", "other.jsonl"), "override other.jsonl: expected KEY=VALUE"),
        (("four.jsonl", "--config", "run.toml", "rl.data.finish_reason_column=prompt"), "are both 'prompt'"),
        (("./rl.x=y", "--config", "run.toml"), "rl.x=y can't be read"),
    ],
)
def test_what_a_config_can_not_tell_is_two(
    command: Callable[..., Any], four: Path, written: Callable[..., Path], arguments: tuple[str, ...], told: str
) -> None:
    """Exit code 2, one message, nothing scored."""
    written("run.toml", RUN)
    done = command("score", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert told in done.stderr


def test_without_a_config_nothing_of_it_is_loaded(fresh_python: Callable[[str], str], four: Path) -> None:
    """Flags alone need neither pydantic models nor YAML."""
    program = f"""
import sys
sys.argv = ["posttrain", "score", {str(four)!r}, "--reward", "gsm8k", "--group-size", "2"]
from posttrain.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print("LOADED", sorted({{"yaml", "posttrain.runs.config"}} & set(sys.modules)))
"""
    assert fresh_python(program).splitlines()[-1] == "LOADED []"
