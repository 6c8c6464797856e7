# SPDX-License-Identifier: Apache-2.0
"""Faults of other reward paths, reported by their users: what came there, and what comes here.

Each test names its case of the collection of reported faults.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from posttrain.errors import RewardContractError
from posttrain.rewards import (
    RewardCandidateResult,
    RewardGroupRequest,
    RewardGroupResult,
    RewardProviderResult,
    RewardProviderSpec,
    RewardWorker,
)
from posttrain.schema import Observation, Trajectory, is_length_truncated

Batch = Callable[..., list[Trajectory]]
Spec = Callable[..., RewardProviderSpec]
State = Callable[..., list[tuple[int, str, str]]]


def _records(group_id: str, ids: list[str]) -> list[Trajectory]:
    observation = Observation(id=group_id, prompt="Which?")
    return [
        Trajectory(trajectory_id=each, group_id=group_id, obs=observation, completion=f"text of {each}") for each in ids
    ]


def _items(scores: list[tuple[str, Any]]) -> tuple[RewardCandidateResult, ...]:
    return tuple(RewardCandidateResult(name, RewardProviderResult({"task": score})) for name, score in scores)


def _worker(spec_of: Spec, evaluate: Callable[[RewardGroupRequest], Any], size: int, **settings: Any) -> RewardWorker:
    catalog = {"judge": spec_of("task", evaluate=evaluate)}
    return RewardWorker(catalog=catalog, reward="judge", group_size=size, **{"estimator": "group_mean", **settings})


@pytest.mark.parametrize(
    ("returned", "faults"),
    [
        (["t1"], ["missing: 't2'", "missing: 't3'"]),
        (["t1", "t2", "t3", "t4"], ["not asked for: 't4'"]),
        (["t1", "t2", "t2"], ["missing: 't3'", "more than once: 't2'"]),
        (["t2", "t1", "t3"], ["at [0]: expected 't1', got 't2'", "at [1]: expected 't2', got 't1'"]),
    ],
)
def test_no_result_is_broadcast_cut_padded_or_sorted(
    spec_of: Spec, state_of: State, returned: list[str], faults: list[str]
) -> None:
    """plumbing-01: one value for all, one too many, one twice or two swapped are refused, and the ids are named."""

    def evaluate(request: RewardGroupRequest) -> RewardGroupResult:
        return RewardGroupResult(request.group_id, _items([(name, 1.0) for name in returned]))

    batch = _records("g1", ["t1", "t2", "t3"])
    before = state_of(batch)
    with pytest.raises(RewardContractError, match=r"^provider 'judge', group 'g1': ") as caught:
        _worker(spec_of, evaluate, 3).score(batch)
    assert caught.value.message.splitlines()[1:-1] == [f"  {fault}" for fault in faults]
    assert state_of(batch) == before


@pytest.mark.parametrize("policy", ["fail", "drop_group"])
@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf], ids=repr)
def test_a_candidate_without_a_score_is_no_zero(
    spec_of: Spec, batch_of: Batch, state_of: State, value: float | None, policy: str
) -> None:
    """plumbing-02: None, NaN and infinity are a fault of the provider under either policy, named with term and id."""
    scores = [("t1", 1.0), ("t2", 3.0), ("t3", 2.0), ("t4", value)]

    def evaluate(request: RewardGroupRequest) -> RewardGroupResult:
        return RewardGroupResult(request.group_id, _items(scores))

    batch = _records("g1", ["t1", "t2", "t3", "t4"])
    before = state_of(batch)
    worker = _worker(spec_of, evaluate, 4, on_unavailable=policy, max_dropped_fraction=1.0)
    with pytest.raises(
        RewardContractError, match=r"^provider 'judge', group 'g1', trajectory 't4': .*\n  t4: term 'task': "
    ) as caught:
        worker.score(batch)
    assert not any(f"{name}: " in caught.value.message for name in ("t1", "t2", "t3"))
    assert state_of(batch) == before


def test_rewards_are_joined_on_the_trajectory_id(spec_of: Spec) -> None:
    """plumbing-04: a batch that was put in another order after generation gets each reward on its own trajectory."""
    scores = {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4}

    def evaluate(request: RewardGroupRequest) -> RewardGroupResult:
        return RewardGroupResult(
            request.group_id, _items([(each.trajectory_id, scores[each.trajectory_id]) for each in request.candidates])
        )

    generated = _records("g", ["a", "b", "c", "d"])
    by_id = {each.trajectory_id: each for each in generated}
    worker = _worker(spec_of, evaluate, 4)
    worker.score([by_id[name] for name in ("c", "a", "d", "b")])
    assert {name: each.reward["task"] for name, each in by_id.items()} == scores
    # Also between computing and writing back.
    outcome = worker.compute(generated)
    again = {name: _records("g", [name])[0] for name in ("d", "b", "a", "c")}
    worker.commit(list(again.values()), outcome)
    assert {name: each.reward["task"] for name, each in again.items()} == scores


def test_results_in_another_order_are_not_zipped(spec_of: Spec, state_of: State) -> None:
    """plumbing-04: a result list in the order of generation, for a request in another, is refused."""

    def evaluate(request: RewardGroupRequest) -> RewardGroupResult:
        return RewardGroupResult(request.group_id, _items([("a", 0.1), ("b", 0.2), ("c", 0.3), ("d", 0.4)]))

    batch = _records("g", ["c", "a", "d", "b"])
    before = state_of(batch)
    with pytest.raises(RewardContractError, match=r"at \[0\]: expected 'c', got 'a'"):
        _worker(spec_of, evaluate, 4).score(batch)
    assert state_of(batch) == before


def test_equal_prompts_are_not_one_group(spec_of: Spec) -> None:
    """plumbing-06: two rows with the same words are two groups, without spread, so that every advantage is 0."""
    batch = [
        Trajectory(
            trajectory_id=f"{group}/{index}",
            group_id=group,
            obs=Observation(id=group, prompt="Describe it.", reference=reference),
            completion=completion,
        )
        for group, reference, completion in (("g1", "cat", "1"), ("g2", "dog", "0"))
        for index in range(2)
    ]

    def evaluate(request: RewardGroupRequest) -> RewardGroupResult:
        scores = [(each.trajectory_id, float(each.completion)) for each in request.candidates]
        return RewardGroupResult(request.group_id, _items(scores))

    report = _worker(spec_of, evaluate, 2, estimator="group_norm").score(batch)
    assert [each.reward["final"] for each in batch] == [1.0, 1.0, 0.0, 0.0]
    assert [each.advantage for each in batch] == [0.0, 0.0, 0.0, 0.0]
    assert (report.group_count, report.zero_spread_count) == (2, 2)
    # What the merged group would have given: ±0.5 over a sample standard deviation of 0.577.
    for each in batch:
        each.group_id = each.obs.id = "merged"
    catalog = {"judge": spec_of("task", evaluate=evaluate)}
    RewardWorker(catalog=catalog, reward="judge", group_size=4).score(batch)
    assert [each.advantage for each in batch] == pytest.approx([0.866, 0.866, -0.866, -0.866], abs=1e-3)


class _Tensor:
    """What the stage sees of a tensor: a shape, and its value when there is one."""

    def __init__(self, value: Any, ndim: int) -> None:
        self.ndim = ndim
        self._value = value

    def item(self) -> Any:
        return self._value


@pytest.mark.parametrize(
    ("returned", "stored"),
    [(0.0, 0.0), (-0.0, -0.0), (np.float32(0.5), 0.5), (np.array(0.5), 0.5), (_Tensor(0.25, 0), 0.25), (1, 1.0)],
)
def test_a_number_is_stored_as_a_plain_float(spec_of: Spec, returned: Any, stored: float) -> None:
    """plumbing-08: 0.0 is a reward like any other, and scalars of other libraries become floats that JSON can write."""

    def evaluate(request: RewardGroupRequest) -> RewardGroupResult:
        return RewardGroupResult(request.group_id, _items([("t1", returned), ("t2", 1.0)]))

    batch = _records("g", ["t1", "t2"])
    batch[0].reward = {"task": 9.0, "final": 9.0}
    _worker(spec_of, evaluate, 2).score(batch)
    assert type(batch[0].reward["task"]) is float
    assert json.dumps(batch[0].reward) == f'{{"task": {stored}, "final": {stored}}}'


@pytest.mark.parametrize(
    ("returned", "shown"),
    [
        (True, r"got True \(bool\): write float\(ok\)"),
        (_Tensor([0.25], 1), "one number per candidate, write float"),
        (np.array([0.25]), "one number per candidate, write float"),
        ("0.5", r"got '0\.5' \(str\): write float\(value\)"),
        (float("1e400"), r"got inf \(float\), which is not finite"),
    ],
    ids=["bool", "tensor of one", "array of one", "text", "1e400"],
)
def test_what_is_no_number_is_refused(spec_of: Spec, state_of: State, returned: Any, shown: str) -> None:
    """plumbing-08: truth values, lists of one, text and infinity are refused, with the way to write it."""

    def evaluate(request: RewardGroupRequest) -> RewardGroupResult:
        return RewardGroupResult(request.group_id, _items([("t1", returned), ("t2", 1.0)]))

    batch = _records("g", ["t1", "t2"])
    before = state_of(batch)
    with pytest.raises(RewardContractError, match=rf"\n  t1: term 'task': expected one finite number, .*{shown}"):
        _worker(spec_of, evaluate, 2).score(batch)
    assert state_of(batch) == before


def test_a_torch_scalar_is_stored_as_a_plain_float(spec_of: Spec) -> None:
    """plumbing-08: a 0-d tensor is a number, a tensor of one is not, where torch is installed."""
    torch = pytest.importorskip("torch")
    values = iter([torch.tensor(0.25), torch.tensor([0.25])])

    def evaluate(request: RewardGroupRequest) -> RewardGroupResult:
        return RewardGroupResult(request.group_id, _items([("t1", next(values))]))

    (record,) = _records("g", ["t1"])
    worker = _worker(spec_of, evaluate, 1)
    worker.score([record])
    assert record.reward == {"task": 0.25, "final": 0.25}
    assert type(record.reward["final"]) is float
    with pytest.raises(RewardContractError, match="one number per candidate"):
        worker.score([record])


def test_only_the_exact_verdict_is_truncation(spec_of: Spec) -> None:
    """plumbing-09: "length" alone is truncation, None is unknown; both are counted, and neither changes a reward."""
    verdicts = ["stop", "length", None, "tool_calls", "LENGTH"]
    seen: list[bool] = []

    def evaluate(request: RewardGroupRequest) -> RewardGroupResult:
        seen.extend(each.is_length_truncated for each in request.candidates)
        return RewardGroupResult(request.group_id, _items([(each.trajectory_id, 1.0) for each in request.candidates]))

    batch = _records("g", ["t1", "t2", "t3", "t4", "t5"])
    for each, verdict in zip(batch, verdicts, strict=True):
        each.policy_info = {"finish_reason": verdict}
    # The third was cut at its budget by an engine that says nothing: a count of tokens is no verdict.
    batch[2].policy_info["completion_token_count"] = 512
    metrics = _worker(spec_of, evaluate, 5).score(batch).metrics()
    assert seen == [False, True, False, False, False]
    assert [is_length_truncated(each.policy_info) for each in batch] == seen
    assert metrics["train/completion/truncated_fraction"] == 0.2
    assert metrics["train/completion/unknown_finish_fraction"] == 0.2
    assert [each.reward for each in batch] == [{"task": 1.0, "final": 1.0}] * 5
