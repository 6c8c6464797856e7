# SPDX-License-Identifier: Apache-2.0
"""Samples of a policy: the probability-flow ODE of a rectified flow, integrated with UniPC, without guidance."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, final

if TYPE_CHECKING:
    import torch

__all__ = ["TIMESTEPS", "Sampler", "velocity_of"]

TIMESTEPS: Final = 1000
"""The model's own unit of time: it is told ``1000 t``."""


@final
class Sampler:
    """Draws final latents.

    Args:
        steps: evaluations of the model per sample.
        flow_shift: how far the times are moved towards noise: ``t' = s t / (1 + (s - 1) t)``.
    """

    def __init__(self, *, steps: int, flow_shift: float) -> None:
        self.steps = steps
        self.flow_shift = flow_shift

    def sample(self, model: Any, noise: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        """The final latent that a noise flows to.

        Args:
            model: a Wan transformer, in the state that is to be sampled.
            noise: standard normal, [B, C, T, H, W], float32.
            text: embedding of the prompt, [B, L, D].

        Returns:
            Of the noise's shape and float32.
        """
        import torch

        # diffusers is not typed.
        scheduler: Any = import_module("diffusers").UniPCMultistepScheduler(
            prediction_type="flow_prediction",
            use_flow_sigmas=True,
            flow_shift=self.flow_shift,
            num_train_timesteps=TIMESTEPS,
        )
        scheduler.set_timesteps(self.steps, device=noise.device)
        latent = noise
        with torch.no_grad():
            for time in scheduler.timesteps:
                velocity = velocity_of(model, latent, time.expand(len(latent)), text)
                latent = scheduler.step(velocity, time, latent, return_dict=False)[0]
        return latent


def velocity_of(model: Any, x_t: torch.Tensor, time: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
    """The model's velocity, float32.

    Args:
        model: a Wan transformer.
        x_t: [B, C, T, H, W], float32.
        time: ``1000 t``, [B].
        text: [B, L, D].
    """
    dtype = next(model.parameters()).dtype
    found: torch.Tensor = model(
        hidden_states=x_t.to(dtype), timestep=time, encoder_hidden_states=text.to(dtype), return_dict=False
    )[0]
    return found.float()
