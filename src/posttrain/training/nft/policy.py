# SPDX-License-Identifier: Apache-2.0
"""The policy of a rank: samples of the old weights, and gradients of the trained ones."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, final

import msgspec

from posttrain.errors import RewardContractError
from posttrain.runs.config.nft import NFTConfig
from posttrain.training.nft.loss import nft_loss, noised
from posttrain.training.nft.models import DiffusionModel
from posttrain.training.nft.sampling import TIMESTEPS, Sampler, velocity_of
from posttrain.training.nft.weights import PolicyWeights, decay

if TYPE_CHECKING:
    import torch

__all__ = ["DiffusionPolicy", "Sample", "generator_of"]


@final
class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """A sample that the loss is taken of."""

    trajectory_id: str
    latent: torch.Tensor
    """Final latent, [1, C, T, H, W] float32."""
    text: torch.Tensor
    """Embedding of its prompt, [1, L, D]."""
    r: float
    """Probability of optimality, in [0, 1]."""


def generator_of(*names: object) -> torch.Generator:
    """A generator on the CPU whose seed follows from the names: the same on every machine and device."""
    import torch

    text = "|".join(map(str, names))
    return torch.Generator().manual_seed(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little"))


@final
class DiffusionPolicy:
    """A model with its trained, old and reference weights.

    Args:
        model: this rank's.
        settings: ``rl.nft``.
    """

    def __init__(self, model: DiffusionModel, settings: NFTConfig) -> None:
        import torch

        self.model = model
        self.settings = settings
        self.weights = PolicyWeights(model.transformer, reference=settings.kl_weight > 0)
        self.optimizer = torch.optim.AdamW(
            self.weights.trained.values(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        self._sampler = Sampler(steps=settings.sampling_steps, flow_shift=settings.flow_shift)

    def sample(self, text: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """A final latent of the old policy, [1, C, T, H, W]; no guidance, so one evaluation a step."""
        import torch

        noise = torch.randn(1, *self.model.latent_shape, generator=generator).to(self.model.device)
        with self.weights.holding("old"), self.model.precision():
            return self._sampler.sample(self.model.transformer, noise, text)

    def accumulate(self, sample: Sample, share: float, generator: torch.Generator) -> float:
        """Add the gradient of a sample's loss times `share`; gives that loss, the mean over its times."""
        import torch

        settings, device = self.settings, self.model.device
        count = settings.times_per_sample
        parts = torch.arange(count) + torch.rand(count, generator=generator)
        t = (parts / count).to(device)
        noise = torch.randn(count, *self.model.latent_shape, generator=generator).to(device)
        x0 = sample.latent.expand_as(noise)
        text = sample.text.expand(count, -1, -1)
        x_t, _ = noised(x0, noise, t)

        def velocity() -> torch.Tensor:
            with self.model.precision():
                return velocity_of(self.model.transformer, x_t, TIMESTEPS * t, text)

        # The other policies first: the graph of the trained one must not see their weights.
        with torch.no_grad(), self.weights.holding("old"):
            old = velocity()
        reference = None
        if settings.kl_weight > 0:
            with torch.no_grad(), self.weights.holding("reference"):
                reference = velocity()
        theta = velocity()
        r = torch.full((count,), sample.r, device=device)
        losses = nft_loss(
            theta,
            old,
            x0=x0,
            noise=noise,
            t=t,
            r=r,
            beta=settings.beta,
            self_normalised=settings.self_normalised,
        )
        if reference is not None:
            losses = losses + settings.kl_weight * (theta - reference).square().flatten(1).mean(1)
        loss = losses.mean()
        (loss * share).backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        return float(loss.detach())

    def gradients(self) -> Sequence[torch.Tensor]:
        """The gradient of each trained weight, in one order on all ranks; zeros where there is none."""
        import torch

        for each in self.weights.trained.values():
            if each.grad is None:
                each.grad = torch.zeros_like(each)
        return [each.grad for each in self.weights.trained.values() if each.grad is not None]

    def step(self) -> float:
        """One optimizer step with the gradients as they are now; gives their norm before it was bounded.

        Raises:
            RewardContractError: the norm is not finite; no weight has changed.
        """
        import torch

        norm = float(torch.nn.utils.clip_grad_norm_(self.weights.trained.values(), self.settings.max_grad_norm))
        if not math.isfinite(norm):
            raise RewardContractError(
                f"the norm of the gradient is {norm}, expected a finite number: lower rl.nft.learning_rate, or set "
                "rl.policy.dtype=float32"
            )
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return norm

    def follow(self, step: int) -> float:
        """Move the old policy after batch `step`, from 1; gives how much of itself it kept."""
        eta = decay(step, self.settings.eta_rate, self.settings.eta_max)
        self.weights.follow(eta)
        return eta
