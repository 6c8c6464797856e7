# SPDX-License-Identifier: Apache-2.0
"""`posttrain preflight`: one screen, or JSON, and an exit code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.runs import load_config
from posttrain.runs.checks.report import CHECKS
from posttrain.runs.directory import Provenance

Written = Callable[..., Path]
Command = Callable[..., Any]

CATALOG = """
from functools import partial
from posttrain.rewards import RewardContractError, RewardProviderResult, RewardProviderSpec, map_candidates

print("chatter of the catalog")

def score(candidate, context):
    if not candidate.completion:
        raise RewardContractError("nothing to score")
    return RewardProviderResult({"task": float(context.reference in candidate.completion)})

def catalog():
    return {
        "mentions": RewardProviderSpec(
            factory=partial(map_candidates, score), revision="r7", terms=("task",), needs=("reference",),
            semantic_identity={"case": "folded"},
        )
    }

def golden(prompt, reference):
    return [f"It is {reference}.", "No idea."]
"""

RUN = ("rl.reward=mentions", "rl.reward_catalog=mine.py:catalog", "rl.group_size=4")


@pytest.fixture
def mine(written: Written) -> Path:
    """A catalog, and rows that it can score."""
    written("rows.jsonl", [{"prompt": "France?", "reference": "Paris"}, {"prompt": "Italy?", "reference": "Rome"}])
    return written("mine.py", CATALOG)


def _verdicts(text: str) -> dict[str, str]:
    """Check to verdict, off the screen."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        verdict, _, rest = line.partition(" ")
        for name in CHECKS:
            if verdict in {"ok", "warning", "failed", "skipped"} and rest.strip().startswith(name):
                found[name] = verdict
    return found


def test_one_screen(command: Command, mine: Path) -> None:
    """What is selected with revision, identity and needs; each check with its verdict; the verdict and the time."""
    done = command("preflight", *RUN)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert len(lines) <= 40
    assert lines[0].split() == ["provider", "for", "revision", "identity", "needs", "terms", "in", "flight"]
    name, used_for, revision, identity, needs, terms, flying = lines[1].split()
    assert (name, used_for, revision, needs, terms, flying) == ("mentions", "train", "r7", "reference", "task", "1")
    assert len(identity) == 12
    verdicts = _verdicts(done.stdout)
    assert list(verdicts) == list(CHECKS)
    assert {name for name, verdict in verdicts.items() if verdict == "skipped"} == {"data", "opens", "probe", "golden"}
    assert lines[-1].startswith("ready (")
    # Only the report goes to standard output.
    assert "chatter" not in done.stdout
    assert "chatter of the catalog" in done.stderr


def test_as_json(shell: Command, mine: Path) -> None:
    """`--json` prints the report and nothing else, whatever the catalog prints."""
    done = shell("preflight", "--json", *RUN, "rl.data.path=rows.jsonl")
    assert done.returncode == 0
    report = json.loads(done.stdout)
    assert (report["verdict"], report["exit_code"]) == ("ok", 0)
    assert report["data"]["rows"] == 2
    assert report["catalog"].startswith("mine.py@sha256:")
    assert "chatter of the catalog" in done.stderr


def test_a_config_file(command: Command, mine: Path, written: Written) -> None:
    """A run is described by a file and overrides over it."""
    written(
        "run.toml",
        '[rl]\nreward = "mentions"\nreward_catalog = "mine.py:catalog"\ngroup_size = 2\nvalidation.enabled = true\n',
    )
    done = command("preflight", "--config", "run.toml", "rl.validation.n_generation=3")
    assert done.returncode == 0
    assert "train: groups of 2; val: groups of 3" in done.stdout


def test_a_fault_of_the_set_up(command: Command, mine: Path) -> None:
    """A failing check of catalog or construction is exit code 2, and the screen says which."""
    done = command("preflight", *RUN, "rl.reward_stage.weights.length=1")
    assert (done.returncode, _verdicts(done.stdout)["stage"]) == (2, "failed")
    assert "weights for unknown terms 'length'" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("not ready: 1 of 17 checks failed (")


def test_a_fault_of_the_data(command: Command, mine: Path, written: Written) -> None:
    """Rows that lack what is needed are exit code 3."""
    written("bad.jsonl", [{"prompt": "France?", "reference": "Paris"}, {"prompt": "Italy?"}])
    done = command("preflight", *RUN, "rl.data.path=bad.jsonl")
    assert (done.returncode, _verdicts(done.stdout)["data"]) == (3, "failed")
    assert "row 2" in done.stdout


def test_golden_completions(command: Command, mine: Path) -> None:
    """`--probe --golden` shows what each provider gave each completion of the first rows."""
    done = command("preflight", *RUN, "rl.data.path=rows.jsonl", "--probe", "--golden", "mine.py:golden")
    assert done.returncode == 0
    golden = [line.split() for line in done.stdout.splitlines() if " mentions " in line and "task" in line]
    assert [(row[1], row[3], " ".join(row[4:])) for row in golden if row[2] == "task"] == [
        ("mentions", "1", "It is Paris."),
        ("mentions", "0", "No idea."),
        ("mentions", "1", "It is Rome."),
        ("mentions", "0", "No idea."),
    ]
    one = command(
        "preflight", *RUN, "rl.data.path=rows.jsonl", "--probe", "--golden", "mine.py:golden", "--golden-rows", "1"
    )
    assert "It is Rome." not in one.stdout


def test_against_a_recorded_run(
    command: Command, mine: Path, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--against` takes a run's folder, and warns once the source is another under the same revision."""
    monkeypatch.chdir(mine.parent)
    recorded = Provenance.of(load_config(None, RUN).worker().stage)
    written("runs/first/provenance.json", recorded.encode())
    same = command("preflight", *RUN, "--against", "runs/first")
    assert (same.returncode, _verdicts(same.stdout)["source"]) == (0, "ok")
    assert "1 of 1 compared with the recorded run" in " ".join(same.stdout.split())
    mine.write_text(CATALOG + "\n# changed\n")
    changed = command("preflight", *RUN, "--against", "runs/first/provenance.json")
    assert (changed.returncode, _verdicts(changed.stdout)["source"]) == (0, "warning")
    assert "revision is still 'r7'" in " ".join(changed.stdout.split())


def test_bad_usage(command: Command, mine: Path) -> None:
    """What makes no sense is one message and exit code 2, with no report."""
    for arguments, words in (
        (["rl.reward=gsm8k"], "rl.group_size: missing"),
        ([*RUN, "--golden", "mine.py:golden"], "add it"),
        ([*RUN, "--rows", "0"], "--rows"),
        ([*RUN, "--against", "nowhere"], "can't read nowhere"),
    ):
        done = command("preflight", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert words in done.stderr


def test_a_warning_lets_a_run_begin(
    command: Command, mine: Path, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A heavy package is told in the verdict, and the exit code is 0."""
    mine.write_text("import jax\n" + CATALOG)
    monkeypatch.setenv("PYTHONPATH", str(written("libs/jax/__init__.py", "").parent.parent), prepend=os.pathsep)
    monkeypatch.syspath_prepend(Path(mine.parent, "libs"))
    done = command("preflight", *RUN)
    monkeypatch.delitem(sys.modules, "jax")
    assert (done.returncode, _verdicts(done.stdout)["light"]) == (0, "warning")
    assert done.stdout.splitlines()[-1].startswith("ready, with 1 warning (")


def test_nobodys_text_commands_the_terminal(command: Command, mine: Path) -> None:
    """Control characters of a catalog's error are spelled out."""
    mine.write_text("def catalog():\n    raise ValueError('\\x1b[2Jgone\\x07')\n")
    done = command("preflight", *RUN)
    assert done.returncode == 2
    assert "\x1b[2J" not in done.stdout
    assert r"\x1b[2Jgone\x07" in done.stdout
