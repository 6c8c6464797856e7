# SPDX-License-Identifier: Apache-2.0
"""Three judges of word problems behind one endpoint: by a rubric, in pairs, and all candidates at once.

    posttrain score examples/rollouts/word_problems.jsonl --group-size 8 \
        --catalog examples/judges/catalog.py:catalog --reward rubric

JUDGE_BASE_URL says where the model is, http://127.0.0.1:8000/v1 by default, and JUDGE_MODEL what it is called there.
``serve_local.py`` beside this file serves a small one; with a hosted model give the config a preset instead of a URL.
"""

from __future__ import annotations

import os

from posttrain.judges import JudgeConfig, ListwiseJudge, PairwiseJudge, RubricItem, RubricJudge
from posttrain.rewards import RewardProviderSpec

RUBRIC = RubricJudge(
    items=[
        RubricItem("correct", "The final number is the one that is known to be right.", weight=3.0),
        RubricItem("steps", "Each step of the calculation is written down.", scale=(0, 4), whole=True),
    ],
    fold="quality",
    show_reference=True,
)
CRITERIA = "The final number is right. Of two that are right, the one that explains its steps is better."
PAIRWISE = PairwiseJudge(criteria=CRITERIA, show_reference=True, opponents=2)
LISTWISE = ListwiseJudge(criteria=CRITERIA, show_reference=True, scale=(0, 10), whole=True)


def catalog() -> dict[str, RewardProviderSpec]:
    """The judges by name; a run selects one, or several whose terms differ."""
    config = JudgeConfig(
        model=os.environ.get("JUDGE_MODEL", "SmolLM2-135M-Instruct"),
        revision="1",
        base_url=os.environ.get("JUDGE_BASE_URL", "http://127.0.0.1:8000/v1"),
        concurrency=16,
    )
    return {"rubric": RUBRIC.spec(config), "pairwise": PAIRWISE.spec(config), "listwise": LISTWISE.spec(config)}
