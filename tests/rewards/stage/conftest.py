# SPDX-License-Identifier: Apache-2.0
"""Batches whose completions say what they are worth, and providers that read it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pytest

from posttrain.rewards import (
    RewardCandidate,
    RewardCandidateResult,
    RewardContext,
    RewardGroupRequest,
    RewardGroupResult,
    RewardProviderResult,
    RewardProviderSpec,
    map_candidates,
)
from posttrain.schema import Observation, Trajectory

Evaluate = Callable[[RewardGroupRequest], Any]


def _trajectory(group_id: str, index: int, worth: Any) -> Trajectory:
    terms = worth if isinstance(worth, Mapping) else {"task": worth}
    return Trajectory(
        trajectory_id=f"{group_id}/{index}",
        group_id=group_id,
        obs=Observation(id=group_id, prompt=f"prompt of {group_id}", reference={"of": [group_id]}),
        completion=json.dumps(dict(terms)),
    )


@pytest.fixture(scope="session")
def batch_of() -> Callable[[Mapping[str, Sequence[Any]]], list[Trajectory]]:
    """`batch_of({"g": [0.5, 1.0]})` has the trajectories ``g/0`` and ``g/1``, worth that of the term ``task``.

    In place of a number stands a mapping where there are several terms.
    """

    def make(groups: Mapping[str, Sequence[Any]]) -> list[Trajectory]:
        return [
            _trajectory(name, index, worth) for name, all_of in groups.items() for index, worth in enumerate(all_of)
        ]

    return make


def _read(terms: tuple[str, ...], candidate: RewardCandidate, context: RewardContext) -> RewardProviderResult:
    worth = json.loads(candidate.completion)
    return RewardProviderResult(terms={term: worth[term] for term in terms})


class _Provider:
    def __init__(self, evaluate: Evaluate) -> None:
        self._evaluate = evaluate

    def evaluate(self, request: RewardGroupRequest) -> Any:
        return self._evaluate(request)


@pytest.fixture(scope="session")
def spec_of() -> Callable[..., RewardProviderSpec]:
    """`spec_of("task")` is a provider that reads that term off each completion; `evaluate` does instead where given."""

    def make(*terms: str, evaluate: Evaluate | None = None, **fields: Any) -> RewardProviderSpec:
        read = partial(map_candidates, partial(_read, terms))
        factory = read if evaluate is None else partial(_Provider, evaluate)
        return RewardProviderSpec(**{"factory": factory, "revision": "1", "terms": terms, **fields})

    return make


@pytest.fixture(scope="session")
def read_off() -> Callable[..., RewardGroupResult]:
    """`read_off(request, "task")` is the honest result of a group."""

    def make(request: RewardGroupRequest, *terms: str) -> RewardGroupResult:
        return RewardGroupResult(
            request.group_id,
            tuple(
                RewardCandidateResult(each.trajectory_id, _read(terms, each, request.context))
                for each in request.candidates
            ),
        )

    return make


@pytest.fixture(scope="session")
def state_of() -> Callable[[Sequence[Trajectory]], list[tuple[int, str, str]]]:
    """What the stage may write, to the bit: identity and content of each reward dict, in order, and each advantage."""

    def of(trajectories: Sequence[Trajectory]) -> list[tuple[int, str, str]]:
        return [(id(each.reward), repr(each.reward), repr(each.advantage)) for each in trajectories]

    return of
