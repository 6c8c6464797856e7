# SPDX-License-Identifier: Apache-2.0
"""Two tasks in one run: each group goes to the scorer of its task, and all of them train one term.

    posttrain score examples/rollouts/mixed_tasks.jsonl --group-size 4 \
        --catalog examples/rewards/mixed_tasks.py:catalog --reward mixed

A row's reference says which task it is: text for GSM8K, a mapping with numbers and a target for countdown.
"""

from __future__ import annotations

from collections.abc import Mapping

from posttrain.rewards import RewardContext, RewardContractError, RewardProviderSpec, load_catalog, route


def task_of(context: RewardContext) -> str:
    """The name of the scorer for a group."""
    if isinstance(context.reference, str):
        return "gsm8k"
    if isinstance(context.reference, Mapping) and "target" in context.reference:
        return "countdown"
    raise RewardContractError("the reference is neither an answer text nor a countdown")


def catalog() -> dict[str, RewardProviderSpec]:
    """One routed provider; its term is ``task``, its diagnostics have the mean of each task."""
    built_in = load_catalog()
    return {"mixed": route(task_of, {name: built_in.spec(name) for name in ("gsm8k", "countdown")})}
