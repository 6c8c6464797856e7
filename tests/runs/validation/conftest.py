# SPDX-License-Identifier: Apache-2.0
"""A judge whose identity a test can change under one catalog path, and rollouts whose scores stand in their texts."""

from __future__ import annotations

import importlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from posttrain.runs import HeldOutValidation, RLConfig, load_config
from posttrain.schema import Observation, Trajectory

# `rubric` gives each candidate the number that its completion is; "down" stands for a service that can't answer, "bad"
# for a provider that breaks the contract. `half` gives half of it, under another term.
_JUDGES = """
import json
import os
from pathlib import Path

from posttrain.rewards import (
    RewardCandidateResult, RewardGroupResult, RewardProviderResult, RewardProviderSpec, RewardUnavailableError,
)

CALLS = []
KEYS = []


class Judge:
    def __init__(self, term, factor):
        self.term, self.factor = term, factor

    def evaluate(self, request):
        CALLS.append(request.group_id)
        KEYS.append(os.environ.get("JUDGE_KEY"))
        texts = [each.completion for each in request.candidates]
        if "down" in texts:
            raise RewardUnavailableError("503 from the judge")
        values = [float("nan") if text == "bad" else float(text) * self.factor for text in texts]
        return RewardGroupResult(
            request.group_id,
            tuple(
                RewardCandidateResult(each.trajectory_id, RewardProviderResult({self.term: value}))
                for each, value in zip(request.candidates, values)
            ),
        )


def catalog():
    settings = json.loads(Path(__file__).with_name("settings.json").read_text())
    return {
        "rubric": RewardProviderSpec(factory=lambda: Judge("task", 1), terms=("task",), **settings),
        "half": RewardProviderSpec(factory=lambda: Judge("half", 0.5), revision="1", terms=("half",)),
    }
"""
_numbers = count()


class Judges:
    """A catalog module on the import path, and what its providers were asked."""

    def __init__(self, folder: Path) -> None:
        name = f"held_out_judges_{next(_numbers)}"
        (folder / f"{name}.py").write_text(_JUDGES)
        self.path = f"{name}:catalog"
        self._folder = folder
        self._name = name
        self.declare()

    def declare(self, **settings: Any) -> None:
        """Let the catalog declare `rubric` so from its next resolution on; revision 3 by default."""
        (self._folder / "settings.json").write_text(json.dumps({"revision": "3", **settings}))

    @property
    def calls(self) -> list[str]:
        """Groups that a provider was asked for, in order; may be emptied."""
        found: list[str] = importlib.import_module(self._name).CALLS
        return found

    @property
    def keys(self) -> list[str | None]:
        """The credential that each of the calls found."""
        found: list[str | None] = importlib.import_module(self._name).KEYS
        return found


@pytest.fixture
def judges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Judges:
    """The catalog of the judges `rubric` (term ``task``) and `half` (term ``half``)."""
    folder = tmp_path / "judges"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return Judges(folder)


@pytest.fixture
def config(judges: Judges) -> Callable[..., RLConfig]:
    """A config that trains with `rubric` and validates pairs; overrides win."""

    def make(*overrides: str) -> RLConfig:
        base = ["rl.reward=rubric", "rl.group_size=8", "rl.validation.n_generation=2"]
        return load_config(None, [*base, f"rl.reward_catalog={judges.path}", *overrides])

    return make


@pytest.fixture
def held_out(config: Callable[..., RLConfig]) -> Callable[..., HeldOutValidation]:
    """The validation of such a config."""

    def make(*overrides: str) -> HeldOutValidation:
        return HeldOutValidation(config(*overrides))

    return make


@pytest.fixture
def rollouts() -> Callable[..., list[Trajectory]]:
    """Groups ``g0``, ``g1`` and so on: one for each text, whose words are the completions."""

    def make(*groups: str, **shared: Any) -> list[Trajectory]:
        return [
            Trajectory(
                trajectory_id=f"g{at}/{place}",
                group_id=f"g{at}",
                obs=Observation(id=f"g{at}", prompt=f"prompt {at}", **shared),
                completion=text,
                policy_info={"finish_reason": "stop"},
            )
            for at, texts in enumerate(groups)
            for place, text in enumerate(texts.split())
        ]

    return make


@pytest.fixture
def files_of() -> Callable[[Path], dict[str, bytes]]:
    """Every file of a folder by its name, hidden ones too."""

    def read(folder: Path) -> dict[str, bytes]:
        return {each.name: each.read_bytes() for each in sorted(folder.iterdir())}

    return read


@pytest.fixture
def quick_path() -> Iterator[Path]:
    """An empty folder in memory where the machine has one: syncing costs nothing there, and a kill is the same."""
    shared = Path("/dev/shm")  # noqa: S108  # the folder that is made in it is private
    usable = shared.is_dir() and os.access(shared, os.W_OK)
    with tempfile.TemporaryDirectory(dir=shared if usable else None) as folder:
        yield Path(folder)
