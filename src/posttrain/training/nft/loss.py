# SPDX-License-Identifier: Apache-2.0
"""The loss of DiffusionNFT (Zheng et al., arXiv 2509.16117) for a rectified flow.

The forward process mixes a sample `x0` of the old policy with noise `eps`, t in (0, 1):

    x_t = (1 - t) x0 + t eps          v = eps - x0          x0 = x_t - t v

A velocity v_theta, trained, and the velocity v_old that the samples were drawn with, imply two policies:

    v+ = (1 - beta) v_old + beta v_theta          v- = (1 + beta) v_old - beta v_theta

With r in [0, 1], the probability that the sample is an optimal one,

    L(theta) = E [ r |v+ - v|^2 + (1 - r) |v- - v|^2 ]

Its gradient in v_theta is 2 beta [beta (v_theta - v_old) + (2r - 1)(v_old - v)] per element, so that v_theta is drawn
to v_old + (2r - 1)/beta (v - v_old): towards a good sample, away from a bad one, and to v_old where r = 1/2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

__all__ = ["implicit_velocities", "nft_loss", "noised", "optimality"]

_LEAST_WEIGHT = 1e-5
"""Floor of the normaliser of the x0 form, which would be 0 where the prediction is exact."""


def optimality(advantages: Sequence[float], clip: float) -> list[float]:
    """``r = 1/2 + 1/2 clip(A / clip, -1, 1)``, in [0, 1].

    With the estimator ``group_mean_batch_std``, A is ``(r_raw - mean_group) / (std_batch + 1e-4)``: the paper's r with
    ``Z = clip * (std_batch + 1e-4)``.

    Args:
        advantages: the stage's, finite.
        clip: advantage from which on a sample counts as surely optimal; above 0.
    """
    return [0.5 + 0.5 * max(-1.0, min(1.0, advantage / clip)) for advantage in advantages]


def noised(x0: torch.Tensor, noise: torch.Tensor, t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """``x_t = (1 - t) x0 + t eps`` and its velocity ``v = eps - x0``.

    Args:
        x0: samples, [B, ...].
        noise: standard normal, of the same shape.
        t: times in (0, 1), [B].
    """
    at = t.reshape(-1, *(1,) * (x0.dim() - 1))
    return (1 - at) * x0 + at * noise, noise - x0


def implicit_velocities(theta: torch.Tensor, old: torch.Tensor, beta: float) -> tuple[torch.Tensor, torch.Tensor]:
    """``v+ = (1 - beta) v_old + beta v_theta`` and ``v- = (1 + beta) v_old - beta v_theta``.

    Computed from their difference, so that both are exactly v_old where v_theta is: of samples without spread rounding
    would be all that the optimizer gets to see, and it scales whatever it gets.
    """
    away = beta * (theta - old)
    return old + away, old - away


def nft_loss(
    theta: torch.Tensor,
    old: torch.Tensor,
    *,
    x0: torch.Tensor,
    noise: torch.Tensor,
    t: torch.Tensor,
    r: torch.Tensor,
    beta: float,
    self_normalised: bool = False,
) -> torch.Tensor:
    """The loss of each sample, [B]: squares are means over its elements.

    Args:
        theta: trained velocity at (x_t, t), [B, ...].
        old: velocity of the sampling policy there, without gradient.
        x0: samples, of the same shape.
        noise: the noise that x_t was made with.
        t: times in (0, 1), [B].
        r: probability of optimality of each sample in [0, 1], [B].
        beta: strength of guidance, above 0; the smaller, the further a step goes.
        self_normalised: the paper's adaptive weighting: in place of ``|v+- - v|^2`` stands
            ``|x0+- - x0|^2 / sg(mean |x0+- - x0|)`` with ``x0+- = x_t - t v+-``, so that no time dominates. `sg` stops
            the gradient.
    """
    x_t, v = noised(x0, noise, t)
    plus, minus = implicit_velocities(theta, old.detach(), beta)
    if self_normalised:
        at = t.reshape(-1, *(1,) * (x0.dim() - 1))
        positive, negative = (_self_normalised(x_t - at * each - x0) for each in (plus, minus))
    else:
        positive, negative = ((each - v).square().flatten(1).mean(1) for each in (plus, minus))
    return r * positive + (1 - r) * negative


def _self_normalised(error: torch.Tensor) -> torch.Tensor:
    flat = error.flatten(1)
    return flat.square().mean(1) / flat.detach().abs().mean(1).clamp(min=_LEAST_WEIGHT)
