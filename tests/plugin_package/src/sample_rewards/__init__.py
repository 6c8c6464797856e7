# SPDX-License-Identifier: Apache-2.0
"""Three rewards in a package of their own: one pointwise, one comparative, one with a life.

Selected with ``catalog="sample_rewards:catalog"``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from posttrain.rewards import ProviderExecution, RewardProviderSpec, map_candidates

from .brevity import Brevity
from .glossary import Glossary
from .keyword import score_candidate

__all__ = ["catalog"]


def catalog() -> Mapping[str, RewardProviderSpec]:
    """The package's providers by name."""
    return {
        "keyword": RewardProviderSpec(
            factory=partial(map_candidates, score_candidate),
            revision="2",
            terms=("keyword",),
            needs=("reference",),
            diagnostics=("words",),
            semantic_identity={"casefold": True, "tags": ["find", "count"], "scale": 1.0, "name": "Schlüssel"},
            execution=ProviderExecution(repeatable=True),
        ),
        "brevity": RewardProviderSpec(
            factory=Brevity,
            revision="1",
            terms=("brevity",),
            diagnostics=("ties",),
            execution=ProviderExecution(groups_in_flight=4, repeatable=True),
        ),
        "glossary": RewardProviderSpec(
            factory=partial(Glossary, "terms.txt"),
            revision="1",
            terms=("glossary",),
            needs=("prompt",),
            semantic_identity={"file": "terms.txt"},
        ),
    }
