# SPDX-License-Identifier: Apache-2.0
"""Ranks as threads of one process, and the batches and catalogs that the tests give them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from posttrain.execution.ranks import MemoryStore, RankEvaluator, RankExchange
from posttrain.rewards import (
    MetricContribution,
    RewardCandidateResult,
    RewardGroupRequest,
    RewardGroupResult,
    RewardProviderResult,
    RewardProviderSpec,
    RewardWorker,
)
from posttrain.schema import Observation, Trajectory

__all__ = ["Told", "batch_of", "exchanges", "on_ranks", "told", "trajectory", "worker_for"]

Told = Callable[[RewardGroupRequest], Any]


def exchanges(count: int, *, timeout_s: float = 20.0) -> list[RankExchange]:
    """The exchanges of `count` ranks that meet at one store."""
    store = MemoryStore()
    return [RankExchange(store, rank=rank, world_size=count, timeout_s=timeout_s) for rank in range(count)]


def on_ranks(places: Sequence[RankExchange], work: Callable[[RankExchange], Any]) -> list[Any]:
    """What the work gives on each rank, or the exception that it ends with; each runs in a thread."""
    ends: list[Any] = [None] * len(places)

    def run(number: int) -> None:
        try:
            ends[number] = work(places[number])
        except BaseException as error:  # noqa: BLE001  # the test looks at it
            ends[number] = error

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(len(places))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    return ends


def trajectory(group: int, place: int, completion: str = "", **fields: Any) -> Trajectory:
    """Candidate `place` of group `group`, with an id and a prompt to match."""
    group_id = f"g{group}"
    observation = Observation(id=group_id, prompt=f"prompt {group}", reference={"n": group})
    given = {"completion": completion or f"{group}:{place}", **fields}
    return Trajectory(trajectory_id=f"{group_id}/{place}", group_id=group_id, obs=observation, **given)


def batch_of(groups: int, size: int) -> list[Trajectory]:
    """Complete groups, one after the other."""
    return [trajectory(group, place) for group in range(groups) for place in range(size)]


class _TellingProvider:
    def __init__(self, tell: Told, term: str) -> None:
        self._tell = tell
        self._term = term

    def evaluate(self, request: RewardGroupRequest) -> RewardGroupResult:
        items = [
            RewardCandidateResult(each.trajectory_id, RewardProviderResult({self._term: value}, {"length": length}))
            for each, value in zip(request.candidates, self._tell(request), strict=True)
            for length in [MetricContribution.mean(len(each.trajectory_id), weight=3)]
        ]
        return RewardGroupResult(request.group_id, tuple(items))


def told(tell: Told, **fields: Any) -> dict[str, RewardProviderSpec]:
    """A catalog with the provider ``told``, which scores each group by a function of its request."""
    given: dict[str, Any] = {"needs": ("prompt", "reference"), "terms": ("task",), "diagnostics": ("length",), **fields}
    term = given["terms"][0]
    return {"told": RewardProviderSpec(factory=lambda: _TellingProvider(tell, term), revision="1", **given)}


def worker_for(exchange: RankExchange | None, tell: Told, **settings: Any) -> RewardWorker:
    """A worker over that provider, over ranks or (None) in process."""
    spec = settings.pop("spec", {})
    evaluator = None if exchange is None else RankEvaluator(exchange)
    return RewardWorker(catalog=told(tell, **spec), reward="told", evaluator=evaluator, **{"group_size": 2, **settings})
