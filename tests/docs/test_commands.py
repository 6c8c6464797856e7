# SPDX-License-Identifier: Apache-2.0
"""The commands of the documentation exist, their flags too, and those of the README do what it says."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from posttrain.cli.app import application

Blocks = Callable[[str, str], list[str]]

_FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)


def known_flags() -> dict[str, set[str]]:
    """Command to its flags; the empty name is that of the program itself."""
    group: Any = typer.main.get_command(application([]))
    commands = {"": group, **group.commands}
    return {
        name: {"--help", "-h", *(flag for each in it.params for flag in each.opts if flag.startswith("-"))}
        for name, it in commands.items()
    }


def lines_of(block: str) -> list[list[str]]:
    """The words of each command line of a shell block that calls the program."""
    lines = block.replace("\\\n", " ").splitlines()
    words = [shlex.split(line, comments=True) for line in lines]
    return [each[each.index("posttrain") + 1 :] for each in words if "posttrain" in each]


def faults_of(words: list[str], known: dict[str, set[str]]) -> list[str]:
    """What a command line asks for that does not exist."""
    name = "" if not words or words[0].startswith("-") else words[0]
    if name not in known:
        return [f"no command {name}"]
    return [
        f"no {flag} of {name}"
        for each in words
        if (flag := each.partition("=")[0]) not in known[name] and each[:1] == "-"
    ]


def test_every_command_line_can_be_parsed(pages: dict[str, str], blocks: Blocks) -> None:
    """In shell blocks and in the running text, each command and each flag is one of the program's."""
    known = known_flags()
    found, faults = 0, []
    for page, text in pages.items():
        spans = re.findall(r"`(posttrain(?: [^`]*)?)`", _FENCE.sub("", text))
        for block in [*blocks(page, "sh"), *spans]:
            for words in lines_of(block):
                found += 1
                faults += [f"{page}: {fault}" for fault in faults_of(words, known)]
    assert faults == []
    assert found > 5


def test_every_flag_of_the_text_exists(pages: dict[str, str]) -> None:
    """A flag in the running text of README and docs is one of some command."""
    known = set().union(*known_flags().values())
    spans = {
        (page, span.split()[0])
        for page, text in pages.items()
        if page != "CHANGELOG.md"
        for span in re.findall(r"`(--[a-z][^`]*)`", _FENCE.sub("", text))
    }
    assert {each for each in spans if each[1] not in known} == set()
    assert ("README.md", "--resume") in spans


def test_what_does_not_exist_is_found() -> None:
    """The check can fail: for a command, for a flag, behind a pipe and over two lines."""
    known = known_flags()
    (words,) = lines_of("cd x && posttrain score a.jsonl \\\n    --rewards gsm8k --out=x # --nonsense\n")
    assert faults_of(words, known) == ["no --rewards of score"]
    assert faults_of(["sore", "--out", "x"], known) == ["no command sore"]
    assert faults_of(["--version"], known) == []


def test_the_targets_of_make_exist(pages: dict[str, str], blocks: Blocks, repository: Path) -> None:
    """Every `make` line of README and CONTRIBUTING names a target."""
    targets = set(re.findall(r"^([a-z]+):", (repository / "Makefile").read_text(), re.MULTILINE))
    named = {
        line.split()[1]
        for page in pages
        for block in blocks(page, "sh")
        for line in block.splitlines()
        if line[:5] == "make "
    }
    assert named
    assert named <= targets


def test_the_commands_of_the_readme_score(
    blocks: Blocks, command: Callable[..., Any], written: Callable[..., Path], tmp_path: Path
) -> None:
    """Pasted beside a file of rollouts, the two scoring commands run and write what the text says they do."""
    own, with_catalog, *_ = [words for block in blocks("README.md", "sh") for words in lines_of(block)]
    rows = [{"group_id": "g", "question": "?", "answer": "#### 4", "completion": f"#### {at}"} for at in range(2, 6)]
    written("rollouts.jsonl", rows)
    assert command(*own).returncode == 0
    written_rows = [json.loads(line) for line in (tmp_path / "scored.jsonl").read_text().splitlines()]
    assert [row["reward"] for row in written_rows] == [
        {"gsm8k": float(at == 4), "final": float(at == 4)} for at in range(2, 6)
    ]
    assert {key for row in written_rows for key in row} == {"trajectory_id", "group_id", "reward", "advantage"}
    assert (tmp_path / "metrics.json").is_file()
    assert (tmp_path / "scored.identity.json").is_file()
    written("rollouts.jsonl", [{"group_id": "g", "completion": "It is Paris.", "reference": "paris"}] * 8)
    (source,) = [block for block in blocks("README.md", "python") if block.startswith("# my_rewards.py\n")]
    written("my_rewards.py", source)
    by_file = [each.replace("my_rewards:catalog", "my_rewards.py:catalog") for each in with_catalog]
    done = command(*by_file)
    assert (done.returncode, done.stderr) == (0, "")
    assert "reward          1.0000" in done.stdout


_TIMES = (
    (re.compile(r"\d+\.\d\d s in (\S+), at most \d+\.\d ms in \S+"), r"T in \1, at most T in G"),
    (re.compile(r"done in \d+\.\d s"), "done in T"),
)


def without_times(text: str) -> list[str]:
    """The lines without what differs between two runs."""
    for pattern, stand_in in _TIMES:
        text = pattern.sub(stand_in, text)
    return [line.rstrip() for line in text.splitlines()]


def test_the_demo_is_the_real_output(
    blocks: Blocks, shell: Callable[..., Any], repository: Path, tmp_path: Path
) -> None:
    """`make demo` prints what the README shows, but for the timings."""
    makefile = (repository / "Makefile").read_text(encoding="utf-8")
    (line,) = re.findall(r"^\t\$\(BIN\)/posttrain (score .*)$", makefile, re.MULTILINE)
    (tmp_path / "examples").symlink_to(repository / "examples")
    done = shell(*shlex.split(line))
    assert (done.returncode, done.stderr) == (0, "")
    (shown,) = blocks("README.md", "text")
    assert without_times(shown) == without_times(done.stdout)
    # A second time, over the files of the first: the target can be made again.
    assert shell(*shlex.split(line)).returncode == 0
