# SPDX-License-Identifier: Apache-2.0
"""The decoder that a rank's reward is given: Wan's autoencoder, whose pixels lie in [-1, 1]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

from posttrain.errors import RewardConfigError

if TYPE_CHECKING:
    import torch

__all__ = ["WanDecoder"]

_PROBE: Final = 50.0
"""Standard deviation of the latent that the range is tried with: far beyond what a policy makes."""


@final
class WanDecoder:
    """Decodes final latents with an `AutoencoderKLWan`, which clamps to [-1, 1].

    That is attested here, so it is tried first: a wild latent is decoded once, and its pixels are looked at.

    Args:
        autoencoder: on its device, frozen.
        normalised: whether latents are in the transformer's units and have to be moved by the autoencoder's own
            `latents_mean` and `latents_std` first, as those of a real checkpoint are.

    Raises:
        RewardConfigError: the pixels leave [-1, 1]: it is another autoencoder.
    """

    output_range = "neg_one_to_one"

    def __init__(self, autoencoder: Any, *, normalised: bool) -> None:
        import torch

        self._autoencoder = autoencoder
        self._mean: torch.Tensor | None = None
        self._std: torch.Tensor | None = None
        channels = autoencoder.config.z_dim
        like = next(autoencoder.parameters())
        if normalised:
            shape = (1, channels, 1, 1, 1)
            self._mean = torch.tensor(autoencoder.config.latents_mean, device=like.device).reshape(shape)
            self._std = torch.tensor(autoencoder.config.latents_std, device=like.device).reshape(shape)
        wild = torch.randn(1, channels, 1, 2, 2, generator=torch.Generator().manual_seed(0)) * _PROBE
        with torch.no_grad():
            pixels = self.decode(wild.to(like.device))
        low, high = float(pixels.min()), float(pixels.max())
        if not (low >= -1 and high <= 1):
            raise RewardConfigError(
                f"the pixels of {type(autoencoder).__name__} have to lie in [-1, 1], and those of a wild latent reach "
                f"from {low:.3g} to {high:.3g}: use a checkpoint with an AutoencoderKLWan"
            )

    def decode(self, latent: torch.Tensor) -> torch.Tensor:
        """Pixels of a latent, [1,3,T,H,W] float32."""
        if self._mean is not None and self._std is not None:
            latent = latent * self._std + self._mean
        dtype = next(self._autoencoder.parameters()).dtype
        found: torch.Tensor = self._autoencoder.decode(latent.to(dtype), return_dict=False)[0]
        return found.float()
