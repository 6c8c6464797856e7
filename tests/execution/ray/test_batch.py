# SPDX-License-Identifier: Apache-2.0
"""The bookkeeping of one call and the size of its chunks, without any Ray."""

from __future__ import annotations

from typing import Any

import pytest

from execution.ray.batches import batch
from posttrain.errors import RewardContractError, RewardUnavailableError
from posttrain.execution.ray.batch import Batch
from posttrain.execution.ray.credentials import referenced
from posttrain.execution.ray.loss import Losses
from posttrain.execution.ray.sizing import CHUNK_BYTES, Pace, weight_of
from posttrain.rewards import RewardWorker
from posttrain.rewards.stage.bind import BoundGroup, bind
from posttrain.rewards.stage.boundary import GroupScores
from posttrain.testing import ScriptedProvider


@pytest.fixture
def groups() -> list[BoundGroup]:
    """Six groups of two."""
    worker = RewardWorker(catalog={"mine": ScriptedProvider().spec()}, reward="mine", group_size=2)
    return bind(batch([None] * 6), worker.stage.selection, 2)


def scores(number: int) -> tuple[GroupScores, ...]:
    """Some."""
    return (GroupScores("mine", f"g{number}", (f"g{number}/0", f"g{number}/1"), {"task": (0.0, float(number))}),)


def test_outcomes_come_out_in_the_order_of_the_groups(groups: list[BoundGroup]) -> None:
    """Whatever the order of the answers; a group without an outcome waits again."""
    call = Batch(groups, collect_unavailable=False, redispatches=1)
    first, _ = call.take(4)
    second, _ = call.take(4)
    assert (first, second, call.waiting) == ([0, 1, 2, 3], [4, 5], 0)
    call.accept(second, [scores(4), None])
    call.accept(first, [scores(number) for number in first])
    assert (call.waiting, call.settle()) == (1, False)
    assert call.take(9)[0] == [5]
    call.accept([5], [scores(5)])
    assert call.settle()
    assert call.result() == [scores(number) for number in range(6)]


def test_the_first_failure_counts_and_what_lies_behind_it_is_not_given_out(groups: list[BoundGroup]) -> None:
    """A failure at group 3 leaves groups 0 to 2 to be scored; an earlier one then takes its place."""
    call = Batch(groups, collect_unavailable=False, redispatches=1)
    call.take(1)
    call.give_back([0, 5])
    call.fail(3, RewardContractError("late"))
    assert call.waiting == 3
    assert call.take(9)[0] == [0, 1, 2]
    call.fail(1, RewardContractError("early"))
    call.fail(2, RewardContractError("between"))
    assert call.settle()
    with pytest.raises(RewardContractError, match="early"):
        call.result()


def test_a_lost_group_is_given_out_again_within_the_bound(groups: list[BoundGroup]) -> None:
    """Twice where one redispatch is allowed; never where a provider is not repeatable."""
    call = Batch(groups, collect_unavailable=True, redispatches=1)
    taken, _ = call.take(2)
    for index in taken:
        call.lost(index, repeatable=index == 0, error=RewardUnavailableError(f"lost {index}"))
    assert call.has_suspects()
    assert call.take_suspect()[0] == [0]
    call.lost(0, repeatable=True, error=RewardUnavailableError("lost again"))
    assert not call.has_suspects()
    rest, _ = call.take(9)
    call.accept(rest, [scores(number) for number in rest])
    assert call.settle()
    first, second, *others = call.result()
    assert isinstance(first, RewardUnavailableError)
    assert first.__notes__ == ["it was given out 2 times, and each time its actor was lost"]
    assert isinstance(second, RewardUnavailableError)
    assert others == [scores(number) for number in range(2, 6)]


def test_a_batch_that_ends_with_a_gap_is_an_error(groups: list[BoundGroup]) -> None:
    """Should a group come back without an outcome, nothing takes its place."""
    call = Batch(groups, collect_unavailable=True, redispatches=1)
    call.take(9)
    assert call.settle()
    with pytest.raises(RewardContractError, match="6 of 6 groups came back without an outcome"):
        call.result()


def test_a_chunk_is_bounded_in_bytes() -> None:
    """Groups of about a MiB: no more than the bound and one group."""
    worker = RewardWorker(catalog={"mine": ScriptedProvider().spec()}, reward="mine", group_size=2)
    trajectories = batch([None] * 20)
    for each in trajectories:
        each.completion = "x" * 2**19
    large = bind(trajectories, worker.stage.selection, 2)
    taken, weight = Batch(large, collect_unavailable=True, redispatches=0).take(20)
    assert weight == sum(weight_of(large[index]) for index in taken)
    assert CHUNK_BYTES <= weight < CHUNK_BYTES + 2**20 + 2**10


@pytest.mark.parametrize(
    ("seconds", "left", "actors", "size"),
    [
        (None, 512, 2, 4),  # nothing is known
        (None, 3, 4, 1),  # a share for each actor
        (0.0001, 512, 2, 256),  # cheap: everyone's share in one crossing
        (0.05, 512, 2, 5),  # 0.25 s of work
        (0.05, 12, 2, 3),  # near the end half of a share
        (2.0, 512, 2, 1),  # long groups one by one
        (0.05, 10**6, 1000, 80),  # four seconds of work in a pool of a thousand
        (0.00001, 10**6, 1, 4096),  # never too many
    ],
)
def test_chunks_are_as_large_as_is_good(seconds: float | None, left: int, actors: int, size: int) -> None:
    """From the seconds per group, the groups that wait and the actors that share them."""
    pace = Pace()
    if seconds is not None:
        pace.learn(10, 10 * seconds)
    assert pace.chunk(left, actors) == size


def test_the_pace_follows_what_is_measured() -> None:
    """Half of the old and half of the new: 1 s, then 3 s a group make 2 s; 8 groups on 2 actors take 8 s."""
    pace = Pace()
    assert pace.backlog(8, 2) is None
    pace.learn(2, 2.0)
    pace.learn(2, 6.0)
    assert pace.seconds == 2.0
    assert pace.backlog(8, 2) == 8.0


def test_credentials_are_found_at_any_depth() -> None:
    """A name of a variable under the key; a vault's address is none, and neither is a text elsewhere."""
    identity: Any = {
        "credential": "TOP_KEY",
        "entries": [{"semantic_identity": {"credential": "INNER_KEY", "model": "CREDENTIAL"}}, {"credential": None}],
        "other": {"credential": "vault://team/key"},
    }
    assert list(referenced(identity)) == ["TOP_KEY", "INNER_KEY"]


def test_what_ray_says_of_a_death_is_told_in_short() -> None:
    """Ids and guesses are left out."""
    text = (
        "The actor died unexpectedly before finishing this task.\n\tclass_name: RewardActor\n\tactor_id: 45b5\n"
        "\tpid: 8698\n\tip: 127.0.0.1\nThe actor is dead because its worker process has died. Worker exit type: "
        "SYSTEM_ERROR Worker exit detail: End of file. Some common causes include: (1) the OOM killer"
    )
    assert Losses.reason(RuntimeError(text)) == (
        "The actor died unexpectedly before finishing this task. The actor is dead because its worker process has "
        "died. Worker exit type: SYSTEM_ERROR Worker exit detail: End of file."
    )
