# SPDX-License-Identifier: Apache-2.0
"""From completions to trajectories: minted ids, one shared observation, whole groups."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from posttrain.data.env import Env
from posttrain.data.jsonl import JsonlRows
from posttrain.data.trajectories import PromptBatch, group_trajectories
from posttrain.errors import RewardContractError
from posttrain.rewards import RewardWorker
from posttrain.schema import Observation

WriteRows: TypeAlias = Callable[..., Path]


@pytest.fixture
def batch(write: WriteRows) -> PromptBatch:
    """Two groups of three."""
    rows = JsonlRows(write({"prompt": "1 + 1", "reference": "2"}, {"prompt": "2 + 2", "reference": "4"}))
    return next(Env(rows, needs=("reference",), shuffle=False).batches(2, 3))


def test_ids_are_minted_from_the_group() -> None:
    """The candidates of a group are numbered in rollout order and share the observation itself."""
    observation = Observation(id="g", prompt="p")
    first, second = group_trajectories(observation, ["a", None])
    assert (first.trajectory_id, first.group_id, first.completion) == ("g/0", "g", "a")
    assert (second.trajectory_id, second.group_id, second.completion) == ("g/1", "g", None)
    assert first.obs is second.obs is observation
    assert first.policy_info == {}
    assert first.policy_info is not second.policy_info


def test_what_the_rollout_recorded_is_copied() -> None:
    """Each candidate has its own record, which the caller may change afterwards."""
    info = {"finish_reason": "length"}
    first, second = group_trajectories(Observation(id="g", prompt="p"), ["a", "b"], policy_info=[info, {}])
    info["finish_reason"] = "stop"
    assert (first.policy_info, second.policy_info) == ({"finish_reason": "length"}, {})


@pytest.mark.parametrize(
    ("completions", "info", "fault"),
    [
        ("a text", None, "expected a list of completions, one a candidate, got 'a text'"),
        (["a", "b"], [{}], "expected 2 records in policy_info, one a completion, got 1"),
    ],
)
def test_what_is_no_group(completions: Any, info: Any, fault: str) -> None:
    """One text in place of a list, and records that do not match, are refused under the group's name."""
    with pytest.raises(RewardContractError, match=f"group 'g': {fault}"):
        group_trajectories(Observation(id="g", prompt="p"), completions, policy_info=info)


def test_a_batch_becomes_what_the_stage_takes(batch: PromptBatch) -> None:
    """Rows, prompts and completions come together as trajectories that the reward stage scores."""
    trajectories = batch.trajectories([["2", "3", "2"], ["4", "5", "6"]])
    assert [each.trajectory_id for each in trajectories][2:4] == ["train-s0-e0-0/2", "train-s0-e0-1/0"]
    with RewardWorker(reward="exact_match", group_size=3) as worker:
        worker.score(trajectories)
    assert [each.reward["final"] for each in trajectories] == [1.0, 0.0, 1.0, 1.0, 0.0, 0.0]


def test_records_go_to_their_candidates(batch: PromptBatch) -> None:
    """What was recorded of the n-th completion of a group stands with that completion."""
    info = [[{"completion_token_count": 10 * group + at} for at in range(3)] for group in range(2)]
    trajectories = batch.trajectories([["a"] * 3] * 2, policy_info=info)
    assert [each.policy_info["completion_token_count"] for each in trajectories] == [0, 1, 2, 10, 11, 12]


def test_every_group_that_is_not_full_is_named(batch: PromptBatch) -> None:
    """All groups with too few or too many completions are told at once, full ones are not."""
    with pytest.raises(RewardContractError, match="the rollout does not fill its groups") as caught:
        batch.trajectories([["a", "b"], ["a"] * 4])
    assert str(caught.value).splitlines()[1:] == [
        "  group 'train-s0-e0-0': expected 3 completions, got 2",
        "  group 'train-s0-e0-1': expected 3 completions, got 4",
    ]
    with pytest.raises(RewardContractError, match="1': expected 3 completions, got 0") as caught:
        batch.trajectories([["a"] * 3, []])
    assert "e0-0'" not in str(caught.value)


def test_every_group_has_its_list(batch: PromptBatch) -> None:
    """A flat list, or one group too few, is refused."""
    with pytest.raises(RewardContractError, match="completions: expected one list for each of 2 groups, got 6"):
        batch.trajectories([["a"]] * 6)
    with pytest.raises(RewardContractError, match="policy_info: expected one list for each of 2 groups, got 1"):
        batch.trajectories([["a"] * 3] * 2, policy_info=[[{}] * 3])
    with pytest.raises(RewardContractError, match="group 'train-s0-e0-1': expected 3 records in policy_info"):
        batch.trajectories([["a"] * 3] * 2, policy_info=[[{}] * 3, [{}]])
