# SPDX-License-Identifier: Apache-2.0
"""What a run asks of its config, and which rank makes which sample."""

from __future__ import annotations

import pytest

from posttrain.errors import RewardConfigError
from posttrain.runs import load_config
from posttrain.schema import Observation
from posttrain.training.nft.batch import makers
from posttrain.training.nft.settings import Layout, check_config, layout_of

SOUND = [
    "rl.reward=image",
    "rl.group_size=2",
    "rl.data.path=prompts.jsonl",
    "rl.reward_stage.estimator=group_mean_batch_std",
    "rl.policy.model=tiny",
    "rl.nft.media=image",
    "rl.nft.reward.enqueue_url=http://127.0.0.1:8080/api/reward/enqueue",
]


def test_a_sound_config_passes() -> None:
    """The settings of the recipes."""
    check_config(load_config(None, SOUND))


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("rl.group_size=1", "rl.group_size: expected at least 2"),
        ("rl.reward_stage.estimator=group_norm", "rl.reward_stage.estimator: expected group_mean_batch_std"),
        ("rl.reward_stage.backend=ray", "rl.reward_stage.backend: expected in_process, got ray"),
        ("rl.mask_truncated=true", "rl.mask_truncated: no engine cuts a latent"),
        ("rl.validation.enabled=true", "rl.validation.enabled: held-out validation is for completions"),
        ("rl.data.path=null", "rl.data.path: missing"),
        ("rl.policy.model=null", "rl.policy.model: missing"),
        ("rl.policy.model=gguf:a.gguf", "rl.policy.model: a diffusion model is no GGUF file"),
        ("rl.policy.warm_start_steps=3", "rl.policy.warm_start_steps: a diffusion model has no warm start"),
        ("rl.reward=video", "rl.reward: rl.nft.reward describes one provider, 'image'"),
        ("rl.nft.ranks_timeout_s=900.0", r"rl.nft.ranks_timeout_s: expected more than .* \(900 s\), got 900"),
    ],
)
def test_what_it_can_not_honour_is_refused_by_name(override: str, told: str) -> None:
    """Each key says what it should be."""
    with pytest.raises(RewardConfigError, match=told):
        check_config(load_config(None, [*SOUND, override]))


def test_all_faults_are_told_at_once() -> None:
    """Two wrong keys, two lines."""
    with pytest.raises(RewardConfigError, match=r"(?s)rl.group_size.*rl.mask_truncated"):
        check_config(load_config(None, [*SOUND, "rl.group_size=1", "rl.mask_truncated=true"]))


@pytest.mark.parametrize(("ranks", "hint"), [(1, "start 2 ranks"), (3, "start 2 or 4 ranks")])
def test_ranks_that_make_no_whole_groups_are_refused(ranks: int, hint: str) -> None:
    """The number of ranks is a multiple of the group size, and the message says which would do."""
    with pytest.raises(RewardConfigError, match=rf"multiple of rl.group_size \(2\), got {ranks}: {hint}"):
        layout_of(load_config(None, SOUND), rank=0, world_size=ranks)


def test_each_rank_has_one_candidate_of_a_group() -> None:
    """Four ranks, groups of two, two rounds: four groups; by hand."""
    config = load_config(None, [*SOUND, "rl.nft.rounds=2"])
    layouts = [layout_of(config, rank=rank, world_size=4) for rank in range(4)]
    assert [each.groups for each in layouts] == [4] * 4
    assert [each.own_groups for each in layouts] == [[0, 2], [0, 2], [1, 3], [1, 3]]
    assert [each.member for each in layouts] == [0, 1, 0, 1]


@pytest.mark.parametrize(("ranks", "size", "rounds"), [(2, 2, 1), (4, 2, 3), (6, 3, 2), (8, 8, 1)])
def test_every_candidate_is_made_once(ranks: int, size: int, rounds: int) -> None:
    """What the ranks make is all of the batch, and `makers` says who made what."""
    layouts = [Layout(rank=rank, world_size=ranks, group_size=size, rounds=rounds) for rank in range(ranks)]
    observations = [Observation(id=f"g{number}", prompt="p") for number in range(layouts[0].groups)]
    made = {f"g{number}/{each.member}": each.rank for each in layouts for number in each.own_groups}
    assert len(made) == layouts[0].groups * size
    assert makers(layouts[0], observations) == made
