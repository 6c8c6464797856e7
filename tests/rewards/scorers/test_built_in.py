# SPDX-License-Identifier: Apache-2.0
"""The built-in scorers as a catalog sees them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from posttrain.errors import RewardContractError
from posttrain.frozen import freeze
from posttrain.rewards.contract.names import name_fault
from posttrain.rewards.contract.request import RewardCandidate, RewardContext, RewardGroupRequest
from posttrain.rewards.scorers import BUILT_IN

REFERENCES: dict[str, Any] = {
    "arithmetic": 42,
    "constant": None,
    "countdown": {"numbers": [6, 7], "target": 42},
    "exact_match": ["forty-two", "42"],
    "gsm8k": "6 * 7 = 42\n#### 42",
    "nonempty": None,
}
RIGHT = {
    "arithmetic": "6 * 7 = 42",
    "constant": "",
    "countdown": "<answer>6*7</answer>",
    "exact_match": " Forty-Two\n",
    "gsm8k": "#### 42",
    "nonempty": "?",
}
WRONG = {"arithmetic": "41", "countdown": "<answer>6+7</answer>", "exact_match": "41", "gsm8k": "42", "nonempty": " "}


def _request(name: str, *completions: str, reference: Any) -> RewardGroupRequest:
    candidates = tuple(RewardCandidate(f"t{index}", completion) for index, completion in enumerate(completions))
    return RewardGroupRequest("g", candidates, RewardContext(reference=freeze(reference)))


def test_the_six_are_there_by_name_in_order() -> None:
    """The built-in names are the six of the specification, sorted, and each is a valid name of a provider."""
    assert list(BUILT_IN) == ["arithmetic", "constant", "countdown", "exact_match", "gsm8k", "nonempty"]
    assert [name_fault("provider", name) for name in BUILT_IN] == [None] * 6


def test_the_built_ins_cannot_be_replaced() -> None:
    """The mapping is read-only, so nobody can put another scorer under a built-in name."""
    with pytest.raises(TypeError, match="does not support item assignment"):
        BUILT_IN["gsm8k"] = BUILT_IN["constant"]  # type: ignore[index]  # the mistake under test


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_spec_declares_its_one_term_and_what_it_reads(name: str) -> None:
    """The term is named like the provider; the reference is needed by exactly those scorers that read one."""
    spec = BUILT_IN[name]
    assert spec.terms == (name,)
    assert spec.needs == (() if name in {"constant", "nonempty"} else ("reference",))
    assert spec.revision == "1"
    assert spec.diagnostics == ()
    assert spec.execution.repeatable


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_frozen_reference_is_read_and_each_candidate_gets_its_own_result(name: str) -> None:
    """With the reference frozen as the stage freezes it, a right and a wrong candidate score 1.0 and 0.0 in order."""
    completions = [RIGHT[name], WRONG.get(name, ""), RIGHT[name]]
    result = BUILT_IN[name].factory().evaluate(_request(name, *completions, reference=REFERENCES[name]))
    assert [item.trajectory_id for item in result.items] == ["t0", "t1", "t2"]
    middle = 1.0 if name == "constant" else 0.0
    assert [item.result.terms[name] for item in result.items] == [1.0, middle, 1.0]
    assert result.items[0].result.terms is not result.items[2].result.terms


@pytest.mark.parametrize("name", [name for name, spec in BUILT_IN.items() if spec.needs])
def test_a_bad_reference_names_the_scorer_for_every_candidate(name: str) -> None:
    """A reference that no scorer can read is a contract error of each candidate, and never a score."""
    with pytest.raises(
        RewardContractError, match=rf"^2 of 2 candidates failed:\n  t0: {name} expects .*\n  t1: {name}"
    ):
        BUILT_IN[name].factory().evaluate(_request(name, "1", "2", reference={"answer": True}))


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_scorer_survives_the_way_to_another_process(name: str, pickled: Callable[..., Any]) -> None:
    """A spec pickles by reference to its function, and what arrives scores alike."""
    provider = pickled(BUILT_IN[name]).factory()
    (item,) = provider.evaluate(_request(name, RIGHT[name], reference=REFERENCES[name])).items
    assert item.result.terms == {name: 1.0}


def test_importing_the_scorers_loads_nothing_heavy(fresh_python: Callable[[str], str]) -> None:
    """No array library, trainer, symbolic algebra, parser of Python or network module comes in with the scorers."""
    program = "import sys, json, posttrain.rewards.scorers; print(json.dumps(sorted(sys.modules)))"
    loaded = set(json.loads(fresh_python(program)))
    assert "posttrain.rewards.scorers.gsm8k" in loaded
    assert not loaded & {"numpy", "torch", "sympy", "math_verify", "asyncio", "socket", "ssl", "http.client"}
