# SPDX-License-Identifier: Apache-2.0
"""The help of each command, read at the width of an ordinary terminal."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from posttrain.rollouts.columns import RolloutColumns, column_flag

# Flag of `posttrain score` to the key of a run's config that it stands for.
KEYS = {
    "ROLLOUTS": "rl.data.path",
    "--reward": "rl.reward",
    "--catalog": "rl.reward_catalog",
    "--group-size": "rl.group_size",
    "--weight": "rl.reward_stage.weights",
    "--estimator": "rl.reward_stage.estimator",
    "--on-unavailable": "rl.reward_stage.on_unavailable",
    "--max-dropped-fraction": "rl.reward_stage.max_dropped_fraction",
    "--groups-in-flight": "rl.reward_stage.groups_in_flight",
    "--group-id-column": "rl.data.group_id_column",
    "--trajectory-id-column": "rl.data.trajectory_id_column",
    "--prompt-column": "rl.data.prompt_column",
    "--completion-column": "rl.data.completion_column",
    "--completions-column": "rl.data.completions_column",
    "--reference-column": "rl.data.response_column",
    "--finish-reason-column": "rl.data.finish_reason_column",
    "--completion-token-count-column": "rl.data.completion_token_count_column",
}
OTHERS = {"--namespace", "--group-by", "--out", "--metrics", "--resume", "--restart", "--explain", "--replay"}


def sections(text: str) -> dict[str, str]:
    """Flag to what the help says of it, on one line."""
    found = re.findall(r"^  (?:-h, )?(--[a-z-]+|ROLLOUTS)(.*(?:\n {3,}.*)*)", text, re.MULTILINE)
    return {name: " ".join(rest.split()) for name, rest in found}


def test_every_flag_says_which_key_it_sets(command: Callable[..., Any]) -> None:
    """Each key stands whole beside its flag, at 80 columns too."""
    done = command("score", "--help")
    assert done.returncode == 0
    assert done.stderr == ""
    assert max(map(len, done.stdout.splitlines())) <= 80
    said = sections(done.stdout)
    assert {name: f"({key})" in said[name] for name, key in KEYS.items()} == dict.fromkeys(KEYS, True)
    assert set(said) >= {*KEYS, *OTHERS, "--help"}


def test_every_column_has_a_flag(command: Callable[..., Any]) -> None:
    """The help names a flag for each column, and the default that the reader has too."""
    said = sections(command("score", "--help").stdout)
    columns = RolloutColumns()
    for role in RolloutColumns.__slots__:
        assert f"[default: {getattr(columns, role)}]" in said[column_flag(role)]


@pytest.mark.parametrize("arguments", [("--help",), ("-h",), ("score", "-h"), ("providers", "--help")])
def test_help_is_no_failure(command: Callable[..., Any], arguments: tuple[str, ...]) -> None:
    """Asking for help ends with 0 and writes to standard output."""
    done = command(*arguments)
    assert done.returncode == 0
    assert done.stdout.startswith("Usage:")


def test_the_commands_and_exit_codes_are_listed(command: Callable[..., Any]) -> None:
    """The first page says of these commands in a whole sentence what they do, and has the exit codes."""
    text = command("--help").stdout
    listed = text.partition("Commands:\n")[2].partition("\n\n")[0]
    said = {line.split()[0]: line for line in listed.splitlines()}
    for name in ("score", "providers", "init-provider"):
        assert said[name].endswith(".")
        assert "..." not in said[name]
    assert "0 done; 2 bad usage or set-up; 3 a contract was broken; 4 an outside service failed" in " ".join(
        text.split()
    )
