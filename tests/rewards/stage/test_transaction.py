# SPDX-License-Identifier: Apache-2.0
"""What a commit writes and what it leaves alone, and which trajectories it refuses."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from posttrain.errors import RewardContractError, RewardUnavailableError
from posttrain.rewards import RewardGroupRequest, RewardOutcome, RewardProviderSpec, RewardWorker
from posttrain.schema import Trajectory

Batch = Callable[..., list[Trajectory]]
Spec = Callable[..., RewardProviderSpec]
State = Callable[..., list[tuple[int, str, str]]]


@pytest.fixture
def worker(spec_of: Spec) -> RewardWorker:
    """Groups of two, the term ``task``; advantages are distances from the mean."""
    return RewardWorker(catalog={"p": spec_of("task")}, reward="p", group_size=2, estimator="group_mean")


@pytest.fixture
def dropping(spec_of: Spec, read_off: Callable[..., Any]) -> RewardWorker:
    """The same, but the group ``lost`` can't be scored and is dropped."""

    def evaluate(request: RewardGroupRequest) -> Any:
        if request.group_id == "lost":
            raise RewardUnavailableError("no answer")
        return read_off(request, "task")

    return RewardWorker(
        catalog={"p": spec_of("task", evaluate=evaluate)},
        reward="p",
        group_size=2,
        estimator="group_mean",
        on_unavailable="drop_group",
        max_dropped_fraction=0.5,
    )


def test_a_score_writes_terms_final_and_advantage(worker: RewardWorker, batch_of: Batch) -> None:
    """Each trajectory gets its raw terms, their combination and its distance from the mean of the group."""
    batch = batch_of({"a": [1.0, 3.0], "b": [0.25, 0.25]})
    worker.score(batch)
    assert [each.reward for each in batch] == [
        {"task": 1.0, "final": 1.0},
        {"task": 3.0, "final": 3.0},
        {"task": 0.25, "final": 0.25},
        {"task": 0.25, "final": 0.25},
    ]
    assert [each.advantage for each in batch] == [-1.0, 1.0, 0.0, 0.0]  # means 2.0 and 0.25


def test_compute_writes_nothing(worker: RewardWorker, batch_of: Batch, state_of: State) -> None:
    """An outcome is computed beside the batch; only the commit shows."""
    batch = batch_of({"a": [1.0, 3.0]})
    before = state_of(batch)
    outcome = worker.compute(batch)
    assert state_of(batch) == before
    assert worker.commit(batch, outcome) is outcome.report
    assert batch[1].reward == {"task": 3.0, "final": 3.0}


def test_foreign_keys_survive(worker: RewardWorker, batch_of: Batch) -> None:
    """Step rewards and other keys, also of types that the stage never writes, stay as they are and in front."""
    batch = batch_of({"a": [1.0, 3.0]})
    steps = [0.1, 0.2]
    batch[0].reward = {"step/0": 0.5, "steps": steps}  # type: ignore[dict-item]  # what others keep there is theirs
    worker.score(batch)
    assert list(batch[0].reward.items()) == [("step/0", 0.5), ("steps", steps), ("task", 1.0), ("final", 1.0)]
    assert steps == [0.1, 0.2]
    assert batch[1].reward == {"task": 3.0, "final": 3.0}


def test_scoring_again_replaces_the_stages_own_keys(worker: RewardWorker, batch_of: Batch) -> None:
    """A second score overwrites the first, and a key that another stage wrote is foreign."""
    batch = batch_of({"a": [1.0, 3.0]})
    for each in batch:
        each.reward = {"task": 9.0, "other_stage": 4.0, "final": 9.0}
        each.advantage = 9.0
    worker.score(batch)
    assert batch[0].reward == {"other_stage": 4.0, "task": 1.0, "final": 1.0}
    assert [each.advantage for each in batch] == [-1.0, 1.0]


def test_a_dropped_group_loses_the_stages_keys(dropping: RewardWorker, batch_of: Batch) -> None:
    """Of a dropped group old terms, ``final`` and the advantage are taken away, never set to a number."""
    batch = batch_of({"kept": [1.0, 3.0], "lost": [1.0, 3.0]})
    for each in batch:
        each.reward = {"task": 9.0, "step": 4.0, "final": 9.0}
        each.advantage = 9.0
    dropping.score(batch)
    assert [each.reward for each in batch] == [
        {"step": 4.0, "task": 1.0, "final": 1.0},
        {"step": 4.0, "task": 3.0, "final": 3.0},
        {"step": 4.0},
        {"step": 4.0},
    ]
    assert [each.advantage for each in batch] == [-1.0, 1.0, None, None]


def test_the_old_reward_is_never_changed(dropping: RewardWorker, batch_of: Batch) -> None:
    """Whoever holds a reward from before keeps it as it was, and two trajectories that shared one no longer do."""
    batch = batch_of({"kept": [1.0, 3.0], "lost": [1.0, 3.0]})
    shared = {"task": 9.0, "step": 4.0}
    for each in batch:
        each.reward = shared
    dropping.score(batch)
    assert shared == {"task": 9.0, "step": 4.0}
    assert len({id(each.reward) for each in batch} | {id(shared)}) == 5


def test_a_reward_of_another_mapping_type_becomes_a_plain_dict(worker: RewardWorker, batch_of: Batch) -> None:
    """A subclass of dict is read as one; what is written is a dict."""
    batch = batch_of({"a": [1.0, 3.0]})
    batch[0].reward = OrderedDict(step=4.0)
    worker.score(batch)
    assert type(batch[0].reward) is dict
    assert batch[0].reward == {"step": 4.0, "task": 1.0, "final": 1.0}


def test_any_order_of_the_trajectories_will_do(worker: RewardWorker, batch_of: Batch) -> None:
    """An outcome is joined on trajectory ids, so the order at commit is free."""
    batch = batch_of({"a": [1.0, 3.0], "b": [5.0, 9.0]})
    outcome = worker.compute(batch)
    worker.commit(batch[::-1], outcome)
    assert [each.reward["final"] for each in batch] == [1.0, 3.0, 5.0, 9.0]
    assert [each.advantage for each in batch] == [-1.0, 1.0, -2.0, 2.0]


def test_equal_records_will_do(worker: RewardWorker, batch_of: Batch) -> None:
    """The ids decide, not the objects: copies that came back from another process take the outcome."""
    batch = batch_of({"a": [1.0, 3.0]})
    copies = [replace(each) for each in batch]
    worker.commit(copies, worker.compute(batch))
    assert [each.advantage for each in copies] == [-1.0, 1.0]
    assert [each.advantage for each in batch] == [None, None]


class _Watched(Trajectory):
    """A record that would notice, or refuse, an attribute that is set in the ordinary way."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in {"reward", "advantage"} and hasattr(self, name):
            raise AssertionError(f"{name} was set one by one")
        super().__setattr__(name, value)


def test_a_subclass_can_not_run_code_between_two_writes(worker: RewardWorker, batch_of: Batch) -> None:
    """The slots are set without a detour over the attribute access of a subclass."""
    batch = [
        _Watched(trajectory_id=each.trajectory_id, group_id=each.group_id, obs=each.obs, completion=each.completion)
        for each in batch_of({"a": [1.0, 3.0]})
    ]
    worker.score(batch)
    assert [each.advantage for each in batch] == [-1.0, 1.0]


def _other_group(batch: list[Trajectory]) -> list[Trajectory]:
    return [*batch[:3], replace(batch[3], group_id="a")]


def _stranger(batch: list[Trajectory]) -> list[Trajectory]:
    return [*batch[:3], replace(batch[3], trajectory_id="z")]


def _odd_id(batch: list[Trajectory]) -> list[Trajectory]:
    return [*batch[:3], replace(batch[3], trajectory_id=["b/1"])]  # type: ignore[arg-type]  # the mistake under test


def _odd_reward(batch: list[Trajectory]) -> list[Any]:
    return [*batch[:3], replace(batch[3], reward=None)]  # type: ignore[arg-type]  # the mistake under test


@pytest.mark.parametrize(
    ("change", "faults"),
    [
        (lambda batch: batch[:3], ["'b/1' is in the outcome only"]),
        (lambda batch: [], [f"{name!r} is in the outcome only" for name in ("a/0", "a/1", "b/0", "b/1")]),
        (lambda batch: [*batch, replace(batch[0], trajectory_id="z")], ["'z' is not in the outcome"]),
        (_stranger, ["'z' is not in the outcome", "'b/1' is in the outcome only"]),
        (lambda batch: [*batch, batch[1]], ["'a/1' stands more than once"]),
        (lambda batch: [*batch[:3], batch[0]], ["'a/0' stands more than once", "'b/1' is in the outcome only"]),
        (_other_group, ["'b/1' is in group 'a', but was scored in 'b'"]),
        (
            lambda batch: [*batch[:3], {"id": 1}],
            [
                "[3]: expected a Trajectory with a dict as its reward, got {'id': 1} (dict)",
                "'b/1' is in the outcome only",
            ],
        ),
        (_odd_reward, ["[3]: expected a Trajectory with a dict as its reward, got ", "'b/1' is in the outcome only"]),
        (
            _odd_id,
            ["[3]: expected a string as trajectory_id, got ['b/1'] (list)", "'b/1' is in the outcome only"],
        ),
    ],
    ids=["fewer", "none", "more", "stranger", "twice", "twice for another", "group", "no record", "no dict", "odd id"],
)
def test_other_trajectories_are_refused(
    worker: RewardWorker,
    batch_of: Batch,
    state_of: State,
    change: Callable[[list[Trajectory]], list[Any]],
    faults: list[str],
) -> None:
    """A commit with other trajectories names each that differs, and writes to none, those that fit included."""
    batch = batch_of({"a": [1.0, 3.0], "b": [5.0, 9.0]})
    outcome = worker.compute(batch)
    given = change(batch)
    before = state_of(batch)
    with pytest.raises(RewardContractError, match="not those that the outcome was computed for") as caught:
        worker.commit(given, outcome)
    lines = caught.value.message.splitlines()[1:-1]
    assert len(lines) == len(faults)
    for line, fault in zip(lines, faults, strict=True):
        assert line.startswith(f"  {fault}")
    assert state_of(batch) == before


def test_many_mismatches_are_counted(worker: RewardWorker, batch_of: Batch) -> None:
    """Past twenty lines the rest is counted."""
    batch = batch_of({f"g{number}": [0.0, 1.0] for number in range(15)})
    with pytest.raises(RewardContractError, match=re.escape("... and 10 more")):
        worker.commit([], worker.compute(batch))


def test_a_generator_is_read_once(worker: RewardWorker, batch_of: Batch) -> None:
    """Score and commit take anything that yields trajectories."""
    batch = batch_of({"a": [1.0, 3.0]})

    def one_by_one() -> Iterator[Trajectory]:
        yield from batch

    outcome: RewardOutcome = worker.compute(one_by_one())  # type: ignore[arg-type]  # typed as a sequence, and kinder
    worker.commit(one_by_one(), outcome)  # type: ignore[arg-type]  # as above
    assert [each.advantage for each in batch] == [-1.0, 1.0]
    worker.score(one_by_one())  # type: ignore[arg-type]  # as above
    assert [each.advantage for each in batch] == [-1.0, 1.0]
