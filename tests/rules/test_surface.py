# SPDX-License-Identifier: Apache-2.0
"""The public surface: what a package exports is sorted, there, and documented."""

from __future__ import annotations

import dataclasses
import importlib
import types
from typing import Any

import pytest

import posttrain.rewards

# Names of the design that users write; more may be exported, these may not go away.
PROMISED = frozenset(
    {
        "GroupEvaluator",
        "GroupScores",
        "ManagedRewardProvider",
        "MetricContribution",
        "ProviderExecution",
        "RewardCandidate",
        "RewardCandidateResult",
        "RewardCatalog",
        "RewardCombiner",
        "RewardConfigError",
        "RewardContext",
        "RewardContractError",
        "RewardError",
        "RewardGroupRequest",
        "RewardGroupResult",
        "RewardOutcome",
        "RewardProvider",
        "RewardProviderResult",
        "RewardProviderSpec",
        "RewardReport",
        "RewardUnavailableError",
        "RewardWorker",
        "load_catalog",
        "map_candidates",
        "route",
    }
)


PROMISED_BY = {
    "posttrain.rewards": PROMISED,
    "posttrain.judges": frozenset({"JudgeConfig", "ListwiseJudge", "PairwiseJudge", "RubricJudge"}),
    "posttrain.media": frozenset(
        {
            "CurlTransport",
            "ImageReward",
            "ImageRewardConfig",
            "LatentCandidate",
            "MediaDecoder",
            "RewardServiceClient",
            "VideoReward",
            "VideoRewardConfig",
        }
    ),
    "posttrain.execution": frozenset({"ProcessEvaluator", "RankEvaluator", "RayEvaluator"}),
    "posttrain.runs": frozenset({"HeldOutValidation", "RLConfig", "RunDirectory", "load_config", "preflight"}),
    "posttrain.testing": frozenset(
        {"FakeJudgeServer", "FakeRewardService", "ManualClock", "ScriptedProvider", "try_scorer"}
    ),
}


def surface_faults(module: Any) -> list[str]:
    """Everything that is wrong with the names that a module exports."""
    names = list(module.__all__)
    faults = []
    # Constants come first, then the rest, as the linter sorts them.
    if names != sorted(set(names), key=lambda name: (not name.isupper(), name)):
        faults.append("__all__ is not sorted, or a name stands twice")
    faults += [f"{name} is exported but not there" for name in names if not hasattr(module, name)]
    faults += [f"{name} has no docstring" for name in names if hasattr(module, name) and not _documented(module, name)]
    return faults


def _documented(module: Any, name: str) -> bool:
    value = getattr(module, name)
    if isinstance(value, type):
        # A class inherits the docstring of its base, and a dataclass gets its signature for one; neither counts.
        text = vars(value).get("__doc__") or ""
        return bool(text.strip()) and not (dataclasses.is_dataclass(value) and text.startswith(f"{value.__name__}("))
    if isinstance(value, types.FunctionType):
        return bool((value.__doc__ or "").strip())
    # A type alias has no docstring of its own.
    return True


@pytest.mark.parametrize("name", PROMISED_BY)
def test_the_public_surface_is_sorted_there_and_documented(name: str) -> None:
    """Every exported name can be imported and says what it is."""
    assert surface_faults(importlib.import_module(name)) == []


@pytest.mark.parametrize(("name", "promised"), PROMISED_BY.items())
def test_every_promised_name_is_exported(name: str, promised: frozenset[str]) -> None:
    """The names of the design are all public."""
    assert set(importlib.import_module(name).__all__) >= promised


def test_nothing_public_is_left_out() -> None:
    """A name without an underscore that the package holds, and that is no module, is exported."""
    held = {
        name
        for name, value in vars(posttrain.rewards).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType) and name != "annotations"
    }
    assert held == set(posttrain.rewards.__all__)


def _module(**names: Any) -> types.ModuleType:
    module = types.ModuleType("surface")
    vars(module).update(names)
    return module


class _Documented:
    """It says what it is."""


class _Inherits(_Documented):
    pass


@dataclasses.dataclass
class _Record:
    x: int = 1


@pytest.mark.parametrize(
    ("names", "fault"),
    [
        ({"__all__": ["b", "a"], "a": 1, "b": 1}, "__all__ is not sorted, or a name stands twice"),
        ({"__all__": ["a", "a"], "a": 1}, "__all__ is not sorted, or a name stands twice"),
        ({"__all__": ["a"]}, "a is exported but not there"),
        ({"__all__": ["a"], "a": lambda: None}, "a has no docstring"),
        ({"__all__": ["a"], "a": _Inherits}, "a has no docstring"),
        ({"__all__": ["a"], "a": _Record}, "a has no docstring"),
    ],
)
def test_a_flaw_of_a_surface_is_found(names: dict[str, Any], fault: str) -> None:
    """The check can fail, for each of its reasons."""
    assert surface_faults(_module(**names)) == [fault]


def test_a_clean_surface_passes() -> None:
    """Documented names in order are fine, a type alias too."""
    assert surface_faults(_module(__all__=["A", "B"], A=_Documented, B=int | str)) == []
