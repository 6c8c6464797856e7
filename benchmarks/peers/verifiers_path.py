# SPDX-License-Identifier: Apache-2.0
"""The classic rubric of verifiers (before 0.4): `Rubric.score_group` over states, group after group.

It gives reward and advantage (reward minus the group's mean), no standard deviation and no batch metrics, so it does
less than the others.
"""

from __future__ import annotations

import asyncio
import importlib
from time import perf_counter
from typing import Any

from peers.workload import Group, Lap, Rule, Timed


def time_verifiers(groups: list[Group], rule: Rule, *, by_group: bool) -> Timed:
    """One lap is one `score_group` call per group."""
    verifiers: Any = importlib.import_module("verifiers")

    def per_rollout(completion: str, answer: str, **_: object) -> float:
        return rule(completion, answer)

    def per_group(completions: list[str], answers: list[str]) -> list[float]:
        return [rule(completion, answer) for completion, answer in zip(completions, answers, strict=True)]

    rubric = verifiers.Rubric(funcs=[per_group if by_group else per_rollout])

    async def score(batches: list[list[Any]]) -> None:
        for batch in batches:
            await rubric.score_group(batch)

    def run() -> Lap:
        batches = [[_state(verifiers, group, text) for text in group.completions] for group in groups]
        started = perf_counter()
        asyncio.run(score(batches))
        return perf_counter() - started

    return run


def _state(verifiers: Any, group: Group, text: str) -> Any:
    return verifiers.State(
        input={"prompt": group.prompt, "answer": group.reference, "example_id": group.group_id, "task": "bench"},
        completion=text,
        trajectory=[{"reward": None, "advantage": None}],
    )
