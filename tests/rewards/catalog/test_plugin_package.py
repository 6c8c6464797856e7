# SPDX-License-Identifier: Apache-2.0
"""A user's own reward package, built, installed and loaded by its dotted path in fresh processes."""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

PREAMBLE = """
import json, sys
from posttrain.rewards import RewardError, RewardWorker
from posttrain.schema import Observation, Trajectory

PROVIDERS = ["keyword", "brevity", "glossary"]

def batch(reference, *completions):
    return [
        Trajectory(
            trajectory_id=f"g/{index}",
            group_id="g",
            obs=Observation(id="g", prompt="name a quark", reference=reference),
            completion=text,
        )
        for index, text in enumerate(completions)
    ]
"""


@pytest.fixture(scope="session")
def installed(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package as an installer leaves it: the wheel, built by its own backend and unpacked."""
    pytest.importorskip("hatchling", reason="the plugin package is built by hatchling")
    wheels, target = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(wheels)],
        cwd=repository / "tests" / "plugin_package",
        check=True,
        capture_output=True,
        timeout=60,
    )
    (wheel,) = wheels.iterdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    return target


@pytest.fixture(scope="session")
def run(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run a program where the package is installed, with this seed of string hashes; gives what it prints as JSON."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")

    def program(text: str, *, seed: int = 0) -> Any:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", f"{PREAMBLE}\n{text}"],
            cwd=elsewhere,
            env={**os.environ, "PYTHONPATH": str(installed), "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return program


def test_the_installed_package_is_the_one_that_is_loaded(run: Run, installed: Path) -> None:
    """Metadata, typing marker and data are installed with its modules, and nothing of the checkout is used."""
    found = run(
        "import importlib.metadata, sample_rewards\n"
        "print(json.dumps([importlib.metadata.version('sample-rewards'), sample_rewards.__file__]))"
    )
    assert found == ["0.3.0", str(installed / "sample_rewards" / "__init__.py")]
    assert sorted(file.name for file in (installed / "sample_rewards").iterdir() if file.is_file()) == [
        "__init__.py",
        "brevity.py",
        "glossary.py",
        "keyword.py",
        "py.typed",
        "terms.txt",
    ]


def test_its_providers_score_a_group_together(run: Run) -> None:
    """Pointwise, comparative and managed providers write their terms, and their diagnostics are reported."""
    found = run("""
trajectories = batch({"keyword": "Blue"}, "blue", "Blue lepton", "red boson gluon", "teal")
with RewardWorker(catalog="sample_rewards:catalog", reward=PROVIDERS, group_size=4) as worker:
    metrics = worker.score(trajectories).metrics()
print(json.dumps([[each.reward for each in trajectories], metrics]))
""")
    keyword = [1.0, 1.0, 0.0, 0.0]
    # Lengths 4, 11, 15 and 4. Of three rivals the first and the last are shorter than two and equal to one.
    brevity = [2.5 / 3, 1 / 3, 0.0, 2.5 / 3]
    # The prompt holds the word quark, so lepton, boson and gluon count.
    glossary = [0.0, 1 / 3, 2 / 3, 0.0]
    assert found[0] == [
        {"keyword": one, "brevity": two, "glossary": three, "final": math.fsum([one, two, three])}
        for one, two, three in zip(keyword, brevity, glossary, strict=True)
    ]
    # Words 1, 2, 3 and 1.
    assert found[1]["train/reward_provider/keyword/words"] == 1.75
    assert found[1]["train/reward_provider/brevity/ties"] == 2.0
    assert found[1]["train/reward_provider/glossary/sample_count"] == 4.0


def test_both_forms_of_its_path_are_one_identity_in_every_process(run: Run) -> None:
    """Whatever the seed of string hashes and the form of the path, what is recorded is the same to the byte."""
    records = [
        run(
            f"worker = RewardWorker(catalog={path!r}, reward=PROVIDERS, group_size=4)\n"
            "print(json.dumps([worker.stage_identity.to_json(), worker.stage_identity.sha256]))",
            seed=seed,
        )
        for path, seed in (
            ("sample_rewards:catalog", 0),
            ("sample_rewards:catalog", 1),
            ("sample_rewards.catalog", 4242),
        )
    ]
    assert records[0] == records[1] == records[2]
    keyword, brevity, glossary = records[0][0]["providers"]
    text = '{"casefold":true,"name":"Schlüssel","scale":1.0,"tags":["find","count"]}'
    assert keyword == {
        "catalog": "sample_rewards:catalog",
        "provider": "keyword",
        "revision": "2",
        "sha256": hashlib.sha256(text.encode("utf-8")).hexdigest(),
    }
    assert brevity["sha256"] == hashlib.sha256(b"null").hexdigest()
    assert glossary["sha256"] == hashlib.sha256(b'{"file":"terms.txt"}').hexdigest()


def test_a_failure_in_it_names_whom_it_is_about(run: Run) -> None:
    """A row that its scorer can't read fails with the provider's name in its catalog, the group and every candidate."""
    message, rewards = run("""
trajectories = batch({"key": "Blue"}, "blue", "teal")
try:
    RewardWorker(catalog="sample_rewards:catalog", reward="keyword", group_size=2).score(trajectories)
except RewardError as error:
    print(json.dumps([str(error), [each.reward for each in trajectories]]))
""")
    assert message.splitlines() == [
        "provider 'keyword', group 'g': 2 of 2 candidates failed:",
        '  g/0: keyword expects a reference such as {"keyword": "blue"}',
        '  g/1: keyword expects a reference such as {"keyword": "blue"}',
    ]
    assert rewards == [{}, {}]


def test_it_is_not_found_where_it_is_not_installed(fresh_python: Callable[[str], str]) -> None:
    """The error says what to do, here and on every worker."""
    message = fresh_python("""
from posttrain.rewards import RewardConfigError, load_catalog
try:
    load_catalog("sample_rewards:catalog")
except RewardConfigError as error:
    print(error)
""")
    assert message.startswith("catalog module 'sample_rewards' can't be found: install its package")
