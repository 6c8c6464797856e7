# SPDX-License-Identifier: Apache-2.0
"""The command as a process: how it is started, what it does to a reader that goes away, to an encoding, to paths."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import posttrain

GSM8K = ("--reward", "gsm8k", "--group-size", "2")


def test_the_version(command: Callable[..., Any], shell: Callable[..., Any]) -> None:
    """`posttrain --version` and `python -m posttrain --version` print the package's version."""
    for run in (command, shell):
        done = run("--version")
        assert (done.returncode, done.stdout, done.stderr) == (0, f"posttrain {posttrain.__version__}\n", "")


def test_without_a_command(shell: Callable[..., Any]) -> None:
    """Nothing asked for is bad usage, answered with the help."""
    done = shell()
    assert done.returncode == 2
    assert "Commands:" in done.stdout + done.stderr


def test_an_unknown_command(command: Callable[..., Any]) -> None:
    """A command that does not exist is bad usage."""
    done = command("sore")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "sore" in done.stderr


def test_the_module_is_the_command(shell: Callable[..., Any], four: Path) -> None:
    """`python -m posttrain score` scores, fails with the same codes, and writes no traceback."""
    done = shell("score", four.name, *GSM8K)
    assert (done.returncode, done.stderr) == (0, "")
    assert "candidates      4" in done.stdout
    done = shell("score", four.name, "--reward", "gsm8k", "--group-size", "3")
    assert done.returncode == 3
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_importing_the_module_runs_nothing(fresh_python: Callable[[str], str]) -> None:
    """Tools that import every module of a package do not start the command, and the import path stays as it is."""
    assert fresh_python("import sys; a = list(sys.path); import posttrain.__main__; print(a == sys.path)") == "True\n"


def test_a_reader_that_goes_away(four: Path) -> None:
    """When nobody reads the output any more, the command ends as a shell expects, without a word."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "posttrain", "score", str(four), *GSM8K],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(writing)
    assert done.returncode == 141
    assert done.stderr == ""


def test_an_encoding_that_lacks_a_character(shell: Callable[..., Any], written: Callable[..., Path]) -> None:
    """The report is printed all the same where the terminal can't show a character, which is spelled out."""
    written("odd.jsonl", [{"group_id": "grün", "completion": "x"}])
    done = shell("score", "odd.jsonl", "--reward", "constant", "--group-size", "1", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert r"1.0000 \xb1 0.0000" in done.stdout
    assert r"gr\xfcn" in done.stdout


MENTIONS = """
from functools import partial
from posttrain.rewards import RewardProviderResult, RewardProviderSpec, map_candidates

def score(candidate, context):
    return RewardProviderResult({"task": 7.0})

def catalog():
    return {"seven": RewardProviderSpec(factory=partial(map_candidates, score), revision="1", terms=("task",))}
"""


def test_a_catalog_in_the_working_directory(
    shell: Callable[..., Any], four: Path, written: Callable[..., Path]
) -> None:
    """`my_rewards:catalog` and `my_rewards.catalog` are found where the user stands."""
    written("my_rewards.py", MENTIONS)
    for path in ("my_rewards:catalog", "my_rewards.catalog"):
        done = shell("score", four.name, "--catalog", path, "--reward", "seven", "--group-size", "2")
        assert (done.returncode, done.stderr) == (0, "")
        assert "reward          7.0000" in done.stdout


def test_a_local_file_hides_no_installed_module(
    shell: Callable[..., Any], four: Path, written: Callable[..., Path]
) -> None:
    """Files named like modules that the command uses are not imported in their place, a catalog of such a name too."""
    for name in ("rich", "typer", "msgspec", "random", "queue", "posttrain_extra"):
        written(f"{name}.py", "raise RuntimeError('the local file was imported')")
    written("sched.py", MENTIONS)
    done = shell("score", four.name, *GSM8K)
    assert (done.returncode, done.stderr) == (0, "")
    # Nothing has imported this module of the standard library before.
    done = shell("providers", "--catalog", "sched:catalog")
    assert done.returncode == 2
    assert "sched has no 'catalog'" in done.stderr
    done = shell("providers", "--catalog", "posttrain_extra:catalog")
    assert done.returncode == 2
    assert "failed at import: RuntimeError: the local file was imported" in done.stderr


def test_two_catalog_files_of_one_name(
    command: Callable[..., Any], four: Path, written: Callable[..., Path], tmp_path: Path
) -> None:
    """Files of the same name in two folders are two catalogs, and the record tells which one it was."""
    for folder, value in (("one", "7.0"), ("two", "8.0")):
        written(f"{folder}/rewards.py", MENTIONS.replace("7.0", value))
        options = ("--catalog", f"{folder}/rewards.py:catalog", "--reward", "seven", "--group-size", "2")
        done = command("score", four, *options, "--out", f"{folder}/out.jsonl")
        assert done.returncode == 0
        assert f"reward          {value}000" in done.stdout
    one, two = [(tmp_path / folder / "out.identity.json").read_text() for folder in ("one", "two")]
    assert '"catalog": "one/rewards.py@sha256:' in one
    assert '"catalog": "two/rewards.py@sha256:' in two
