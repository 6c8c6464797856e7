# SPDX-License-Identifier: Apache-2.0
"""A rank's policy: what it samples, what its gradient is, what a batch becomes, and its checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from posttrain.data import EnvState
from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.rewards import GroupOutcome, RewardOutcome, RewardReport
from posttrain.schema import Observation, Trajectory
from posttrain.training.nft.batch import Rollouts, optimality_of, recorded, roll_out, samples_of
from posttrain.training.nft.checkpoints import load_checkpoint, prune_checkpoints, save_checkpoint
from posttrain.training.nft.policy import DiffusionPolicy, Sample, generator_of
from posttrain.training.nft.settings import Layout

Make = Callable[..., DiffusionPolicy]
LAYOUT = Layout(rank=1, world_size=2, group_size=2, rounds=2)
OBSERVATIONS = [Observation(id="g0", prompt="a lamp"), Observation(id="g1", prompt="snow")]


def _sample(policy: DiffusionPolicy, r: float, name: str = "g0/0") -> Sample:
    text = policy.model.encode("a lamp")
    latent = policy.sample(text, generator_of("sample", name))
    return Sample(trajectory_id=name, latent=latent, text=text, r=r)


def _flat(policy: DiffusionPolicy) -> torch.Tensor:
    return torch.cat([each.reshape(-1) for each in policy.gradients()])


def test_a_sample_follows_from_its_name(policy: Make) -> None:
    """The same run seed, step and trajectory give the same latent, whatever was sampled before; others give others."""
    one, other = policy(), policy()
    other.sample(other.model.encode("snow"), generator_of("something else"))
    first, second, third = (
        roll_out(made, LAYOUT, OBSERVATIONS, step) for made, step in ((one, 1), (other, 1), (other, 2))
    )
    assert [each.trajectory_id for each in first.trajectories] == ["g0/1", "g1/1"]
    pairs = list(zip(first.trajectories, second.trajectories, third.trajectories, strict=True))
    assert all(torch.equal(a.latent, b.latent) for a, b, _ in pairs)
    assert not any(torch.equal(a.latent, c.latent) for a, _, c in pairs)
    assert not torch.equal(pairs[0][0].latent, pairs[1][0].latent)


def test_the_old_policy_is_what_samples(policy: Make) -> None:
    """Trained weights that have moved change no sample until the old ones follow."""
    made = policy()
    before = _sample(made, 0.5).latent
    with torch.no_grad():
        for each in made.weights.trained.values():
            each.add_(0.05)
    assert torch.equal(_sample(made, 0.5).latent, before)
    made.follow(1)
    assert not torch.equal(_sample(made, 0.5).latent, before)


def test_an_even_sample_has_no_gradient_at_the_start(policy: Make) -> None:
    """A group without spread gives r = 1/2: exactly nothing moves, in single precision too."""
    made = policy("rl.nft.beta=0.3")
    made.accumulate(_sample(made, 0.5), 1.0, generator_of("noise"))
    assert torch.count_nonzero(_flat(made)) == 0


def test_good_and_bad_pull_apart(policy: Make) -> None:
    """At the start the gradient is odd in 2r - 1: of r and of 1 - r it is the opposite."""
    gradients = []
    for r in (0.75, 0.25):
        made = policy("rl.nft.self_normalised=false")
        made.accumulate(_sample(made, r), 1.0, generator_of("noise"))
        gradients.append(_flat(made))
    assert gradients[0].norm() > 1e-3
    torch.testing.assert_close(gradients[0], -gradients[1], rtol=1e-4, atol=1e-7)


def test_shares_add_up(policy: Make) -> None:
    """The gradient of two samples at a half each is the mean of theirs: so ranks and rounds make one batch."""
    alone = []
    for name in ("g0/0", "g0/1"):
        made = policy()
        made.accumulate(_sample(made, 0.9, name), 1.0, generator_of("noise", name))
        alone.append(_flat(made))
    both = policy()
    for name in ("g0/0", "g0/1"):
        both.accumulate(_sample(both, 0.9, name), 0.5, generator_of("noise", name))
    torch.testing.assert_close(_flat(both), (alone[0] + alone[1]) / 2, rtol=1e-4, atol=1e-7)


def test_the_distance_to_the_start_is_nothing_at_the_start(policy: Make) -> None:
    """The KL term's loss and gradient are 0 where the velocities are equal, and pull back where they are not."""
    made = policy("rl.nft.kl_weight=10.0")
    plain = policy()
    losses = [each.accumulate(_sample(each, 0.9), 1.0, generator_of("noise")) for each in (made, plain)]
    assert losses[0] == losses[1]
    assert torch.equal(_flat(made), _flat(plain))
    with torch.no_grad():
        for each in made.weights.trained.values():
            each.add_(0.05)
    made.weights.follow(0.0)
    assert made.accumulate(_sample(made, 0.5), 1.0, generator_of("noise")) > losses[0]


def test_a_gradient_that_is_no_number_is_refused(policy: Make) -> None:
    """No weight changes, and the message says what to do."""
    made = policy()
    before = made.weights.sha256()
    made.gradients()[0].fill_(float("nan"))
    with pytest.raises(RewardContractError, match=r"the norm of the gradient is nan, expected a finite number"):
        made.step()
    assert made.weights.sha256() == before


def _outcome() -> RewardOutcome:
    kept = GroupOutcome(group_id="g0", trajectory_ids=("g0/0", "g0/1"), final=(1.0, 3.0), advantages=(-0.5, 0.5))
    dropped = GroupOutcome(group_id="g1", trajectory_ids=("g1/0", "g1/1"), dropped_because="image: TimeoutError")
    return RewardOutcome((kept, dropped), RewardReport(namespace="train"), ("image",))


def test_a_dropped_group_is_left_out_of_the_loss() -> None:
    """It has no r, not one half: nothing is known of it."""
    r = optimality_of(_outcome(), 1.0)
    assert r == {"g0/0": 0.25, "g0/1": 0.75}
    trajectories = tuple(
        Trajectory(trajectory_id=f"{each.id}/1", group_id=each.id, obs=each, latent=torch.zeros(1))
        for each in OBSERVATIONS
    )
    texts = (torch.zeros(1), torch.ones(1))
    (sample,) = samples_of(Rollouts(trajectories=trajectories, texts=texts), r)
    assert (sample.trajectory_id, sample.r) == ("g0/1", 0.75)


def test_what_is_recorded_has_its_prompt_and_no_latent() -> None:
    """Copies of other ranks' trajectories lack the prompt; the record does not."""
    copy = Trajectory(trajectory_id="g1/0", group_id="g1", obs=Observation(id="g1", prompt=None), latent=object())
    (row,) = recorded([copy], OBSERVATIONS)
    assert (row.obs.prompt, row.latent) == ("snow", None)
    assert copy.latent is not None


def test_a_prompt_that_is_no_text_is_refused_by_row(policy: Make) -> None:
    """A conversation is not flattened by a guess."""
    talk = Observation(id="g0", prompt=[{"role": "user", "content": "a lamp"}], row_id="row-7")
    layout = Layout(rank=0, world_size=2, group_size=2, rounds=1)
    with pytest.raises(RewardContractError, match=r"group 'g0': row 'row-7': a diffusion model is prompted with text"):
        roll_out(policy(), layout, [talk], 1)


PLACE = EnvState(epoch=1, position=2, rows=3, seed=0, shuffle=True, last_row_id="x")


def test_a_checkpoint_brings_everything_back(policy: Make, tmp_path: Path) -> None:
    """Weights of all policies, optimizer and place in the data: the next step of both is the same to the bit."""
    made = policy("rl.nft.kl_weight=0.1")
    for step in (1, 2):
        made.accumulate(_sample(made, 0.9), 1.0, generator_of("noise", step))
        made.step()
        made.follow(step)
    save_checkpoint(tmp_path, 2, made, PLACE)
    other = policy("rl.nft.kl_weight=0.1", "rl.policy.seed=5")
    assert load_checkpoint(tmp_path, 2, other) == PLACE
    for each in (made, other):
        each.accumulate(_sample(each, 0.1), 1.0, generator_of("noise", 3))
        each.step()
    assert made.weights.sha256() == other.weights.sha256()
    assert torch.equal(*(next(iter(each.weights.copies["reference"].values())) for each in (made, other)))


def test_checkpoints_that_can_not_be_used_are_named(policy: Make, tmp_path: Path) -> None:
    """One that is not there, one that is damaged, one of another model."""
    made = policy()
    with pytest.raises(RewardConfigError, match=r"there is no .*step-00000001.pt on this rank's machine"):
        load_checkpoint(tmp_path, 1, made)
    file = save_checkpoint(tmp_path, 1, made, PLACE)
    with pytest.raises(RewardConfigError, match=r"is of another model"):
        load_checkpoint(tmp_path, 1, policy("rl.policy.lora_rank=2"))
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(RewardConfigError, match=r"step-00000001.pt can't be read as a checkpoint"):
        load_checkpoint(tmp_path, 1, made)


def test_the_latest_checkpoints_are_kept(policy: Make, tmp_path: Path) -> None:
    """As many as are asked for; what a kill has left half written goes too."""
    made = policy()
    for step in (1, 2, 10):
        save_checkpoint(tmp_path, step, made, PLACE)
    (tmp_path / "checkpoints/step-00000011.tmp").write_bytes(b"half")
    prune_checkpoints(tmp_path, 2)
    left = sorted(file.name for file in (tmp_path / "checkpoints").iterdir())
    assert left == ["step-00000002.pt", "step-00000010.pt"]
