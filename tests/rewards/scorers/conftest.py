# SPDX-License-Identifier: Apache-2.0
"""How the tests of the built-in scorers ask for one score."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from posttrain.rewards.contract.request import RewardCandidate, RewardContext, RewardGroupRequest
from posttrain.rewards.scorers import BUILT_IN


@pytest.fixture(scope="session")
def score() -> Callable[[str, Any, str], float]:
    """The score of one completion: ``score("gsm8k", reference, completion)``, through the provider of the catalog."""
    providers = {name: spec.factory() for name, spec in BUILT_IN.items()}

    def ask(name: str, reference: Any, completion: str) -> float:
        request = RewardGroupRequest("g", (RewardCandidate("t", completion),), RewardContext(reference=reference))
        (item,) = providers[name].evaluate(request).items
        assert set(item.result.terms) == {name}
        value = item.result.terms[name]
        assert type(value) is float
        return value

    return ask
