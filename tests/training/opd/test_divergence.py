# SPDX-License-Identifier: Apache-2.0
"""The reverse KL of a token and its gradient, against tables that are worked out by hand."""

from __future__ import annotations

from math import log

import pytest
import torch

from posttrain.training.opd.divergence import reverse_kl, sampled_loss, token_log_probs


def _logits(*rows: tuple[float, ...], dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Logits of these probabilities."""
    return torch.tensor(rows, dtype=dtype).log().requires_grad_()


# p, q, KL(p || q) and its slopes p_v (log p_v - log q_v - KL).
# Two tokens: KL = 1/2 ln(1/2 / 1/4) + 1/2 ln(1/2 / 3/4) = 1/2 ln 4/3; the slope of the first is
# 1/2 (ln 2 - 1/2 ln 4/3) = 1/2 ln sqrt(3) = 1/4 ln 3.
# Three: KL = 1/2 ln 2 + 0 - 1/4 ln 2 = 1/4 ln 2; slopes 1/2 (1 - 1/4) ln 2, 1/4 (0 - 1/4) ln 2, 1/4 (-1 - 1/4) ln 2.
TABLE = [
    ((1 / 2, 1 / 2), (1 / 4, 3 / 4), 1 / 2 * log(4 / 3), (1 / 4 * log(3), -1 / 4 * log(3))),
    (
        (1 / 2, 1 / 4, 1 / 4),
        (1 / 4, 1 / 4, 1 / 2),
        1 / 4 * log(2),
        (3 / 8 * log(2), -1 / 16 * log(2), -5 / 16 * log(2)),
    ),
    ((1 / 4, 3 / 4), (1 / 4, 3 / 4), 0.0, (0.0, 0.0)),
]


@pytest.mark.parametrize(("p", "q", "divergence", "slopes"), TABLE)
@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_divergence_and_slopes_are_those_of_the_table(
    p: tuple[float, ...], q: tuple[float, ...], divergence: float, slopes: tuple[float, ...], temperature: float
) -> None:
    """A temperature divides the logits: with logits as many times larger the value stays, the slopes shrink."""
    student, teacher = (temperature * _logits(each).detach() for each in (p, q))
    student.requires_grad_()
    found = reverse_kl(student, teacher, temperature).reverse_kl
    (gradient,) = torch.autograd.grad(found.sum(), student)
    assert found.tolist() == pytest.approx([divergence], abs=1e-12)
    assert gradient[0].tolist() == pytest.approx([slope / temperature for slope in slopes], abs=1e-12)


def test_it_is_the_reverse_direction() -> None:
    """The expectation is the student's: KL((1/4, 3/4) || (1/2, 1/2)) = 1/4 ln 1/2 + 3/4 ln 3/2."""
    found = reverse_kl(_logits((1 / 4, 3 / 4)), _logits((1 / 2, 1 / 2))).reverse_kl
    assert found.item() == pytest.approx(1 / 4 * log(1 / 2) + 3 / 4 * log(3 / 2))


def test_entropy_is_the_students() -> None:
    """H(1/2, 1/4, 1/4) = 3/2 ln 2, and no gradient goes through it."""
    made = reverse_kl(_logits((1 / 2, 1 / 4, 1 / 4)), _logits((1 / 4, 1 / 4, 1 / 2)))
    assert made.entropy.item() == pytest.approx(3 / 2 * log(2))
    assert not made.entropy.requires_grad


def test_the_gradient_agrees_with_finite_differences() -> None:
    """In float64, at a temperature, and none goes to the teacher."""
    generator = torch.Generator().manual_seed(0)
    student = torch.randn(5, 7, dtype=torch.float64, generator=generator, requires_grad=True)
    teacher = torch.randn(5, 7, dtype=torch.float64, generator=generator, requires_grad=True)
    assert torch.autograd.gradcheck(lambda each: reverse_kl(each, teacher, 0.7).reverse_kl, (student,))
    student = student.detach()
    assert not reverse_kl(student, teacher).reverse_kl.requires_grad


@pytest.mark.parametrize("rows", [0, 1, 512, 1300])
def test_any_number_of_positions_is_that_of_one_formula(rows: int) -> None:
    """The work in parts is the same as torch's own operations on the whole, weights of the positions included."""
    generator = torch.Generator().manual_seed(rows)
    student = torch.randn(rows, 11, dtype=torch.float64, generator=generator, requires_grad=True)
    teacher = torch.randn(rows, 11, dtype=torch.float64, generator=generator)
    weights = torch.rand(rows, dtype=torch.float64, generator=generator)
    log_p, log_q = student.log_softmax(-1), teacher.log_softmax(-1)
    plain = (log_p.exp() * (log_p - log_q)).sum(-1)
    (expected,) = torch.autograd.grad((weights * plain).sum(), student)
    found = reverse_kl(student, teacher).reverse_kl
    (slopes,) = torch.autograd.grad((weights * found).sum(), student)
    assert torch.allclose(found, plain, atol=1e-12)
    assert torch.allclose(slopes, expected, atol=1e-12)


def test_low_precision_is_worked_on_in_float32() -> None:
    """Logits in bfloat16 give a float32 divergence to float32's accuracy, and a gradient in bfloat16."""
    student = _logits((1 / 2, 1 / 4, 1 / 4), dtype=torch.bfloat16)
    teacher = _logits((1 / 4, 1 / 4, 1 / 2), dtype=torch.bfloat16).detach()
    found = reverse_kl(student, teacher).reverse_kl
    exact = reverse_kl(student.detach().double(), teacher.double()).reverse_kl
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(exact.item(), rel=1e-6)
    (gradient,) = torch.autograd.grad(found.sum(), student)
    assert gradient.dtype == torch.bfloat16


def test_a_token_that_the_teacher_rules_out_is_no_finite_divergence() -> None:
    """Where q is 0 and p is not, the divergence is infinite and says so, instead of a large number."""
    teacher = torch.tensor([[0.0, float("-inf")]])
    assert not torch.isfinite(reverse_kl(torch.zeros(1, 2), teacher).reverse_kl).any()


def test_log_probs_are_those_of_the_tokens() -> None:
    """They are ln 1/2 and ln 1/4; at temperature 2 the probabilities go with their roots, made to sum to 1."""
    logits = _logits((1 / 2, 1 / 4, 1 / 4), (1 / 2, 1 / 4, 1 / 4))
    ids = torch.tensor([0, 1])
    assert token_log_probs(logits, ids, 1.0).tolist() == pytest.approx([log(1 / 2), log(1 / 4)])
    roots = (0.5**0.5, 0.5, 0.5)
    assert token_log_probs(logits, ids, 2.0).tolist() == pytest.approx([log(each / sum(roots)) for each in roots[:2]])


def test_the_sampled_form_has_the_gradient_of_the_full_one_in_expectation() -> None:
    """Weighted by the student's probabilities over all tokens that could be sampled, it is exactly the same."""
    student, teacher = _logits((1 / 2, 1 / 4, 1 / 4)), _logits((1 / 8, 1 / 8, 3 / 4)).detach()
    (expected,) = torch.autograd.grad(reverse_kl(student, teacher).reverse_kl.sum(), student)
    mean = torch.zeros_like(expected)
    for token, p in enumerate((1 / 2, 1 / 4, 1 / 4)):
        ids = torch.tensor([token])
        loss = sampled_loss(token_log_probs(student, ids, 1.0), token_log_probs(teacher, ids, 1.0))
        mean += p * torch.autograd.grad(loss.sum(), student)[0]
    assert torch.allclose(mean, expected, atol=1e-12)


def test_the_sampled_form_weighs_tokens_of_an_older_policy() -> None:
    """With log p = ln 1/2, log q = ln 1/4 and log p_old = ln 1/4: weight 2, value 2 ln 2, slope to log p 2 ln 2."""
    now = torch.tensor([log(1 / 2)], dtype=torch.float64, requires_grad=True)
    then = torch.tensor([log(1 / 4)], dtype=torch.float64)
    loss = sampled_loss(now, then, then)
    (gradient,) = torch.autograd.grad(loss.sum(), now)
    assert loss.item() == pytest.approx(2 * log(2))
    assert gradient.item() == pytest.approx(2 * log(2))
