# SPDX-License-Identifier: Apache-2.0
"""The tiny model: what its decoder paints, what its sampler does, how it reads prompts; and what a decoder attests."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from posttrain.errors import RewardConfigError
from posttrain.runs import RLConfig, load_config
from posttrain.training.nft.models import DiffusionModel, WanDecoder, load_model
from posttrain.training.nft.models.text import hashed_text
from posttrain.training.nft.models.tiny import tiny_autoencoder, tiny_transformer
from posttrain.training.nft.sampling import Sampler


def _config(*overrides: str) -> RLConfig:
    return load_config(None, ["rl.reward=image", "rl.group_size=2", "rl.policy.model=tiny", *overrides])


def _model(*overrides: str) -> DiffusionModel:
    return load_model(_config(*overrides), torch.device("cpu"))


@pytest.mark.parametrize("frames", [1, 3])
def test_the_decoder_paints_what_the_latent_says(frames: int) -> None:
    """Each colour is 0.7 sqrt(8) z / sqrt(2 |z|^2 + 4) in a patch of 8 by 8; 4 frames a latent frame but the first."""
    latent = torch.randn(1, 16, frames, 4, 4, generator=torch.Generator().manual_seed(3))
    decoder = WanDecoder(tiny_autoencoder(), normalised=False)
    with torch.no_grad():
        pixels = decoder.decode(latent)
    colours = latent[:, :3]
    expected = 0.7 * 8**0.5 * colours / torch.sqrt(2 * colours.square().sum(1, keepdim=True) + 4)
    expected = expected.clamp(-1, 1).repeat_interleave(8, 3).repeat_interleave(8, 4)
    expected = torch.cat([expected[:, :, :1], expected[:, :, 1:].repeat_interleave(4, 2)], 2)
    assert pixels.shape == (1, 3, 4 * frames - 3, 32, 32)
    torch.testing.assert_close(pixels, expected, rtol=0, atol=1e-6)


def test_a_decoder_that_leaves_the_range_is_refused() -> None:
    """An autoencoder without the clamp is found out by a wild latent, before it attests what is not so."""
    unclamped = tiny_autoencoder()

    class Unclamped:
        config = unclamped.config

        def parameters(self) -> object:
            return unclamped.parameters()

        def decode(self, latent: torch.Tensor, return_dict: bool) -> tuple[torch.Tensor]:
            return (unclamped.decode(latent, return_dict=False)[0] * 1.5,)

    with pytest.raises(RewardConfigError, match=r"of Unclamped have to lie in \[-1, 1\], and .* reach from -1.5 to"):
        WanDecoder(Unclamped(), normalised=False)
    assert WanDecoder(unclamped, normalised=False).output_range == "neg_one_to_one"


def test_a_real_latent_is_moved_by_the_autoencoders_own_mean_and_std() -> None:
    """The transformer's unit is z = (latent - mean) / std, so the decoder gets z std + mean."""
    seen = []

    class Autoencoder:
        config = SimpleNamespace(z_dim=2, latents_mean=[1.0, -1.0], latents_std=[2.0, 0.5])

        def parameters(self) -> object:
            return iter([torch.zeros(1)])

        def decode(self, latent: torch.Tensor, return_dict: bool) -> tuple[torch.Tensor]:
            seen.append(latent)
            return (torch.zeros(1, 3, 1, 8, 8),)

    WanDecoder(Autoencoder(), normalised=True).decode(torch.tensor([3.0, 4.0]).reshape(1, 2, 1, 1, 1))
    assert seen[-1].flatten().tolist() == [7.0, 1.0]


def test_the_tiny_transformer_follows_from_its_seed() -> None:
    """The same seed gives the same weights, another one others, and the global generator is left alone."""
    before = torch.random.get_rng_state()
    one, same, other = (tiny_transformer(seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_sampler_integrates_the_flow() -> None:
    """UniPC on a constant velocity is exact: x0 = noise - v, whatever the number of steps and the shift."""

    class Constant(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.velocity = torch.nn.Parameter(torch.tensor(0.75))

        def forward(self, hidden_states: torch.Tensor, **others: object) -> tuple[torch.Tensor]:
            return (self.velocity.expand_as(hidden_states),)

    noise = torch.randn(2, 16, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    for steps, shift in ((1, 1.0), (4, 3.0), (10, 5.0)):
        latent = Sampler(steps=steps, flow_shift=shift).sample(Constant(), noise, torch.zeros(2, 1, 1))
        torch.testing.assert_close(latent, noise - 0.75, rtol=0, atol=2e-5)


def test_a_prompt_without_a_model() -> None:
    """A word has its own fixed vector, case apart, in its place; zeros stand behind the last, and 16 words count."""
    one, other = hashed_text("A cat", 8), hashed_text("cat", 8)
    assert one.shape == (1, 16, 8)
    assert torch.equal(one[0, 1], other[0, 0])
    assert torch.equal(hashed_text("a CAT", 8), one)
    assert torch.count_nonzero(one[0, 2:]) == 0
    assert torch.equal(hashed_text("x " * 40, 8), hashed_text("x " * 16, 8))
    assert torch.isfinite(hashed_text("half a \ud800 pair", 8)).all()


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["rl.nft.media=image", "rl.nft.height=32", "rl.nft.width=48"], (16, 1, 4, 6)),
        (["rl.nft.media=video", "rl.nft.height=64", "rl.nft.width=96", "rl.nft.frames=17"], (16, 5, 8, 12)),
    ],
)
def test_the_shape_of_a_latent(overrides: list[str], expected: tuple[int, ...]) -> None:
    """8 by 8 pixels and 4 frames a place, the first frame alone: measured on a real decode elsewhere in here."""
    assert _model(*overrides).latent_shape == expected


def test_adapters_alone_are_trained() -> None:
    """With a LoRA rank the base is frozen, and what is added does nothing at first."""
    plain = tiny_transformer(0)
    adapted = _model("rl.policy.lora_rank=2", "rl.nft.media=image", "rl.nft.height=32", "rl.nft.width=32").transformer
    trained = [name for name, each in adapted.named_parameters() if each.requires_grad]
    assert trained
    assert all("lora" in name for name in trained)
    noise = torch.randn(1, 16, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    text = hashed_text("a cat", 32)
    sampler = Sampler(steps=2, flow_shift=3.0)
    assert torch.equal(sampler.sample(adapted, noise, text), sampler.sample(plain.eval(), noise, text))


def test_a_checkpoint_that_is_not_there_is_named(tmp_path: object) -> None:
    """A folder without a model is a fault of the config, in the words of its key."""
    with pytest.raises(RewardConfigError, match=r"^rl.policy.model: '.*' can't be loaded as a Wan checkpoint"):
        _model(f"rl.policy.model={tmp_path}")
