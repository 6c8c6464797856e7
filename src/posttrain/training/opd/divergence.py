# SPDX-License-Identifier: Apache-2.0
"""The reverse KL divergence of a student to its teacher at one token position, and its gradient.

With student logits z and teacher logits u over one vocabulary, and a temperature T,

    log p = log_softmax(z / T),  log q = log_softmax(u / T)
    D(z, u) = KL(p || q) = sum_v p_v (log p_v - log q_v),  in nats, >= 0
    dD/dz_v = p_v (log p_v - log q_v - D) / T

The sum is over the whole vocabulary. With one token y drawn from p the same gradient is the expectation of

    (log p_y - log q_y) dlog p_y / dz_v

since E[dlog p_y] = 0: the form with one sampled token (Thinking Machines Lab, "On-Policy Distillation", 2025) is an
unbiased and noisier estimate of it. Sources: reverse KL on the student's own samples, arXiv 2306.08543 (MiniLLM); on
samples that are taken as they are, with no gradient through the sampling, arXiv 2306.13649 (GKD).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

__all__ = ["TokenDivergence", "reverse_kl", "sampled_loss", "token_log_probs"]

_ROWS: Final = 512
"""Positions that are worked on at once, so that the temporary copies in float32 stay small."""


class TokenDivergence(NamedTuple):
    """What one pass over the vocabulary gives, each a float tensor of shape [positions]."""

    reverse_kl: Tensor
    """D of each position, with its gradient to the student's logits."""
    entropy: Tensor
    """Of the student at the temperature of the divergence, in nats; no gradient."""


def reverse_kl(student: Tensor, teacher: Tensor, temperature: float = 1.0) -> TokenDivergence:
    """The reverse KL of each position over the whole vocabulary.

    The work is in float32 (float64 where the student is), whatever the logits are. One tensor of the size and type of
    the student's logits is kept for the gradient.

    Args:
        student: logits [positions, vocabulary].
        teacher: logits of the same shape; no gradient goes there.
        temperature: divides both, above 0.
    """
    apply: Any = _ReverseKL.apply
    return TokenDivergence(*apply(student, teacher.detach(), temperature))


def token_log_probs(logits: Tensor, token_ids: Tensor, temperature: float) -> Tensor:
    """The log p of given tokens [positions] under logits [positions, vocabulary] at a temperature, with gradient."""
    scaled = _wide(logits) / temperature
    return scaled.gather(-1, token_ids.unsqueeze(-1)).squeeze(-1) - scaled.logsumexp(-1)


def sampled_loss(student: Tensor, teacher: Tensor, old: Tensor | None = None) -> Tensor:
    """The form with one sampled token: a loss whose gradient estimates that of the reverse KL.

        w (log p_y - log q_y),  w = exp(log p_y - log p_old_y),  the gradient only through w

    w is 1 while the samples are the present policy's own; its gradient then is that of log p_y.

    Args:
        student: log p of the sampled tokens, with gradient.
        teacher: log q of the same tokens.
        old: log p of them when they were sampled; None: now.
    """
    now = student.detach()
    weight = torch.exp(student - (now if old is None else old))
    return weight * (now - teacher.detach())


class _ReverseKL(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, student: Tensor, teacher: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        slopes = torch.empty_like(student)
        divergences, entropies = [], []
        for z, u, slope in zip(*(torch.split(each, _ROWS) for each in (student, teacher, slopes)), strict=True):
            log_p = torch.log_softmax(_wide(z) / temperature, -1)
            log_q = torch.log_softmax(u.to(log_p.dtype) / temperature, -1)
            p, gap = log_p.exp(), log_p - log_q
            divergence = (p * gap).sum(-1)
            slope.copy_(p * (gap - divergence.unsqueeze(-1)) / temperature)
            divergences.append(divergence)
            entropies.append(-(p * log_p).sum(-1))
        ctx.save_for_backward(slopes)
        both = torch.cat(divergences), torch.cat(entropies)
        ctx.mark_non_differentiable(both[1])
        return both

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (slopes,) = ctx.saved_tensors
        return slopes * grads[0].unsqueeze(-1).to(slopes.dtype), None, None


def _wide(logits: Tensor) -> Tensor:
    return logits if logits.dtype == torch.float64 else logits.float()
