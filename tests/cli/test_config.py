# SPDX-License-Identifier: Apache-2.0
"""`posttrain config`: the resolved config, where each value came from, and every fault with exit code 2."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from posttrain.runs import load_config

RUN = """
[rl]
reward = "gsm8k"
group_size = 4

[rl.data]
path = "rows.jsonl"
"""


def test_the_resolved_config_is_toml(command: Callable[..., Any], written: Callable[..., Path]) -> None:
    """What is printed is read as an equal config, and says of each value where it came from."""
    path = written("run.toml", RUN)
    done = command("config", "--config", "run.toml", "rl.group_size=8", "rl.validation.reward=exact_match")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert 'reward = "gsm8k"  # run.toml:3' in lines
    assert "group_size = 8  # override rl.group_size=8" in lines
    assert "mask_truncated = false  # default" in lines
    assert "# interval is not set" in lines
    assert load_config(written("printed.toml", done.stdout)) == load_config(
        path, ["rl.group_size=8", "rl.validation.reward=exact_match"]
    )


def test_overrides_alone_are_a_config(command: Callable[..., Any]) -> None:
    """No file is needed."""
    done = command("config", "rl.reward=[gsm8k,brevity]", "rl.group_size=8")
    assert done.returncode == 0
    assert tomllib.loads(done.stdout)["rl"]["reward"] == ["gsm8k", "brevity"]


def test_every_fault_is_told_and_the_exit_code_is_two(
    command: Callable[..., Any], written: Callable[..., Path]
) -> None:
    """All of them in one message on standard error, nothing on standard output."""
    written("run.yaml", "rl:\n  reward: gsm8k\n  group_size: '4'\n  grup_size: 4\n")
    done = command("config", "--config", "run.yaml", "rl.data.seed=x", "rows.jsonl")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "posttrain: set-up: the config run.yaml is not valid:",
        "  override rows.jsonl: expected KEY=VALUE, for example rl.group_size=8; a file is no override",
        "  rl.grup_size (run.yaml:4): unknown key; did you mean rl.group_size?",
        "  rl.group_size (run.yaml:3): expected a whole number of at least 1, got '4' (str): write 4 without quotes",
        "  rl.data.seed (override rl.data.seed=x): expected a whole number from 0 to 4294967295, got 'x' (str)",
    ]


def test_nothing_at_all_says_what_is_missing(command: Callable[..., Any]) -> None:
    """Without file and overrides, the keys that have no default are named with an example."""
    done = command("config")
    assert done.returncode == 2
    assert "rl.reward: missing" in done.stderr
    assert "for example rl.group_size=8" in done.stderr


def test_no_variable_of_the_environment_is_expanded(shell: Callable[..., Any], written: Callable[..., Path]) -> None:
    """Neither in the print nor in an error does the value of a variable appear."""
    written("run.toml", f'{RUN}[rl.run]\ndirectory = "$HIDDEN/runs"\n')
    done = shell("config", "--config", "run.toml", HIDDEN="tok-TEST-333")
    assert done.returncode == 0
    assert 'directory = "$HIDDEN/runs"  # run.toml:9' in done.stdout
    assert "tok-TEST-333" not in done.stdout
    done = shell("config", "--config", "run.toml", "rl.data.path=${HIDDEN}", HIDDEN="tok-TEST-333")
    assert done.returncode == 2
    assert "${HIDDEN} would stay as it is" in done.stderr
    assert "tok-TEST-333" not in done.stderr
