# SPDX-License-Identifier: Apache-2.0
"""What a provider raises in an actor arrives as the error that it would be in process."""

from __future__ import annotations

from concurrent.futures import CancelledError
from typing import Any

import pytest

from execution.ray.batches import batch, written
from execution.ray.conftest import Pool
from posttrain.errors import RewardConfigError, RewardContractError, RewardError, RewardUnavailableError
from posttrain.rewards import RewardWorker


@pytest.fixture(scope="module")
def workers(module_pool: Pool) -> tuple[RewardWorker, RewardWorker]:
    """One worker in process and one on two actors, that fail a batch."""
    here = RewardWorker(catalog="actor_rewards:catalog", reward="scripted", group_size=2)
    return here, module_pool(min_actors=2, num_cpus=0.1)


def seen(error: RewardError) -> tuple[Any, ...]:
    """Everything that an error carries, its request included."""
    return (
        type(error), error.message, error.provider, error.group_id, error.trajectory_id, error.cause_type,
        error.cause_text, tuple(getattr(error, "__notes__", ())), error.request,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ({"kind": "contract"}, RewardContractError),
        ({"kind": "contract", "cause": True}, RewardContractError),
        ({"kind": "unavailable", "text": "503 \ud800 \u0000"}, RewardUnavailableError),
        ({"kind": "config"}, RewardConfigError),
        ({"kind": "plain", "cause": True}, RewardContractError),
    ],
)
def test_an_error_is_the_same_as_in_process(
    workers: tuple[RewardWorker, RewardWorker], script: dict[str, Any], kind: type[RewardError]
) -> None:
    """Kind, message, names, cause, notes and the failing request are equal; nothing is written."""
    found = []
    for worker in workers:
        trajectories = batch([{}, {}, {"do": "raise", **script}, {}])
        with pytest.raises(kind, match=r"said so|503") as caught:
            worker.score(trajectories)
        assert all(each.reward == {} for each in trajectories)
        found.append(seen(caught.value))
    assert found[0] == found[1]
    assert found[0][3] == "g2"


def test_the_first_failure_in_the_order_of_the_groups_counts(workers: tuple[RewardWorker, RewardWorker]) -> None:
    """A later group fails at once, an earlier one after a while: the earlier one is raised, as in process."""
    scripts: list[Any] = [{} for _ in range(40)]
    scripts[3] = {"do": "raise", "kind": "contract", "text": "the earlier"}
    scripts[39] = {"do": "raise", "kind": "contract", "text": "the later"}
    for worker in workers:
        with pytest.raises(RewardContractError, match="the earlier"):
            worker.score(batch(scripts))


def test_cancellation_passes_through(workers: tuple[RewardWorker, RewardWorker]) -> None:
    """A CancelledError of a provider is no error of the tree, here as there."""
    for worker in workers:
        with pytest.raises(CancelledError, match="said so"):
            worker.score(batch([{}, {"do": "raise", "kind": "cancelled"}]))


def test_a_provider_that_exits_does_not_take_the_actor_with_it(workers: tuple[RewardWorker, RewardWorker]) -> None:
    """sys.exit in evaluate is a contract error that names the group; the actor goes on."""
    _, worker = workers
    with pytest.raises(RewardContractError, match=r"provider 'scripted', group 'g1': raised SystemExit: said so"):
        worker.score(batch([{}, {"do": "raise", "kind": "exit"}]))
    trajectories = batch([{}])
    worker.score(trajectories)
    assert all("final" in each.reward for each in trajectories)


def test_unavailable_groups_are_dropped_and_counted_as_in_process(module_pool: Pool) -> None:
    """The same groups are left out, under the same cause, and the others have the same bits."""
    settings: dict[str, Any] = {"reward": ["scripted", "tenth"], "group_size": 2}
    policy: dict[str, Any] = {"on_unavailable": "drop_group", "max_dropped_fraction": 0.5}
    found = []
    for worker in (
        RewardWorker(catalog="actor_rewards:catalog", **settings, **policy),
        module_pool(num_cpus=0.1, **settings, **policy),
    ):
        scripts: list[Any] = [{} for _ in range(9)]
        scripts[4] = scripts[7] = {"do": "raise", "kind": "unavailable", "cause": True}
        trajectories = batch(scripts)
        report = worker.score(trajectories)
        found.append((written(trajectories), report.dropped, report.dropped_count))
    assert found[0] == found[1]
    assert found[0][1:] == ({"scripted: KeyError": 2}, 2)


def test_a_dropped_group_hides_no_fault_of_another_provider(module_pool: Pool) -> None:
    """The second provider is asked although the first was unavailable, and its fault fails the batch."""
    worker = module_pool(reward=["scripted", "tenth"], num_cpus=0.1, on_unavailable="drop_group")
    trajectories = batch([{"do": "raise", "kind": "unavailable"}, {}])
    trajectories[0].completion = "please refuse"
    with pytest.raises(RewardContractError, match="no tenth of g0/0") as caught:
        worker.score(trajectories)
    assert (caught.value.provider, caught.value.trajectory_id) == ("tenth", "g0/0")


def test_a_text_that_only_json_can_hold_crosses(workers: tuple[RewardWorker, RewardWorker]) -> None:
    """Lone surrogates, integers beyond 64 bits and both zeros reach the actor as they are."""
    found = []
    for worker in workers:
        trajectories = batch([{"big": 10**40, "zero": -0.0, "text": "\udcff"}])
        trajectories[0].completion = "\ud83d half a pair, \x00"
        worker.score(trajectories)
        found.append(written(trajectories))
    assert found[0] == found[1]
