# SPDX-License-Identifier: Apache-2.0
"""The loss of DiffusionNFT: tables derived by hand, its gradient in closed form and by differences, its properties."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posttrain.training.nft import implicit_velocities, nft_loss, noised, optimality

_halves = st.integers(-8, 8).map(lambda number: number / 2)


def _column(*values: float) -> torch.Tensor:
    """[B, 1], float64."""
    return torch.tensor(values, dtype=torch.float64).reshape(-1, 1)


def _drawn(seed: int = 0) -> dict[str, torch.Tensor]:
    """Everything that the loss takes, [3, 2, 2] float64; x0 and noise come from normals, t and r from (0, 1)."""
    generator = torch.Generator().manual_seed(seed)
    shape = (3, 2, 2)
    names = ("theta", "old", "x0", "noise")
    drawn = {name: torch.randn(shape, generator=generator, dtype=torch.float64) for name in names}
    return drawn | {name: torch.rand(3, generator=generator, dtype=torch.float64) for name in ("t", "r")}


def _loss(given: dict[str, torch.Tensor], beta: float, *, self_normalised: bool = False) -> torch.Tensor:
    drawn = dict(given)
    return nft_loss(drawn.pop("theta"), drawn.pop("old"), **drawn, beta=beta, self_normalised=self_normalised)


def test_the_forward_process() -> None:
    """x_t = (1 - t) x0 + t eps and v = eps - x0, by hand: at t = 0.25 of x0 = 4 and eps = 8, x_t = 5 and v = 4."""
    x_t, v = noised(_column(4, 4, 4), _column(8, 8, 8), torch.tensor([0.0, 0.25, 1.0], dtype=torch.float64))
    assert x_t.flatten().tolist() == [4, 5, 8]
    assert v.flatten().tolist() == [4, 4, 4]
    # And back: x0 = x_t - t v.
    assert (x_t - _column(0, 0.25, 1) * v).flatten().tolist() == [4, 4, 4]


def test_the_implicit_policies() -> None:
    """v_theta = 3 and v_old = 1: with beta 0.5 they are 2 and 0, with beta 1 they are 3 and -1."""
    for beta, expected in ((0.5, (2.0, 0.0)), (1.0, (3.0, -1.0))):
        plus, minus = implicit_velocities(_column(3), _column(1), beta)
        assert (plus.item(), minus.item()) == expected


@pytest.mark.parametrize(
    ("r", "beta", "expected"),
    [
        # v = eps - x0 = 5 - 1 = 4. beta = 1: v+ = 3, v- = -1; squares 1 and 25. beta = 0.5: 2 and 0; squares 4 and 16.
        (1.0, 1.0, 1.0),
        (0.0, 1.0, 25.0),
        (0.5, 1.0, 13.0),
        (0.75, 1.0, 7.0),
        (1.0, 0.5, 4.0),
        (0.25, 0.5, 13.0),
    ],
)
def test_a_table_by_hand(r: float, beta: float, expected: float) -> None:
    """The sum r |v+ - v|^2 + (1 - r) |v- - v|^2 with v_theta = 3, v_old = 1, x0 = 1, eps = 5; t plays no part."""
    t, rs = torch.tensor([0.3], dtype=torch.float64), torch.tensor([r], dtype=torch.float64)
    loss = nft_loss(_column(3), _column(1), x0=_column(1), noise=_column(5), t=t, r=rs, beta=beta)
    assert loss.tolist() == [expected]


def test_a_table_by_hand_of_the_self_normalised_form() -> None:
    """With t = 0.5, x0 = (1, 1), eps = (5, 5): x_t = (3, 3), v = (4, 4); v_theta = (3, 1), v_old = (1, 1), beta = 1.

    v+ = (3, 1): x0+ = x_t - v+ / 2 = (1.5, 2.5), errors 0.5 and 1.5, mean square 1.25, mean 1: 1.25.
    v- = (-1, 1): x0- = (3.5, 2.5), errors 2.5 and 1.5, mean square 4.25, mean 2: 2.125.
    With r = 0.25: 0.25 * 1.25 + 0.75 * 2.125 = 1.90625.
    """

    def row(*values: float) -> torch.Tensor:
        return torch.tensor([values], dtype=torch.float64)

    half, quarter = torch.tensor([0.5], dtype=torch.float64), torch.tensor([0.25], dtype=torch.float64)
    loss = nft_loss(
        row(3, 1), row(1, 1), x0=row(1, 1), noise=row(5, 5), t=half, r=quarter, beta=1.0, self_normalised=True
    )
    assert loss.tolist() == [1.90625]


def test_the_mean_is_over_the_elements_of_a_sample() -> None:
    """A sample's loss does not grow with its size, and no sample sees another."""
    drawn = _drawn()
    whole = _loss(drawn, 0.7)
    assert whole.shape == (3,)
    for index in range(3):
        alone = _loss({name: each[index : index + 1] for name, each in drawn.items()}, 0.7)
        assert alone.item() == pytest.approx(whole[index].item(), rel=1e-14)


@pytest.mark.parametrize("beta", [0.1, 1.0, 2.5])
def test_the_gradient_in_closed_form(beta: float) -> None:
    """2 beta [beta (v_theta - v_old) + (2r - 1)(v_old - v)], over the number of elements."""
    drawn = _drawn()
    drawn["theta"].requires_grad_()
    _loss(drawn, beta).sum().backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    v = drawn["noise"] - drawn["x0"]
    r = drawn["r"].reshape(-1, 1, 1)
    expected = 2 * beta * (beta * (drawn["theta"] - drawn["old"]) + (2 * r - 1) * (drawn["old"] - v)) / 4
    assert drawn["theta"].grad is not None
    torch.testing.assert_close(drawn["theta"].grad, expected.detach(), rtol=1e-12, atol=1e-14)


def test_the_gradient_by_differences() -> None:
    """Central differences in float64 agree with autograd, in the plain form."""
    drawn = _drawn(1)

    def loss(theta: torch.Tensor) -> torch.Tensor:
        return _loss({**drawn, "theta": theta}, 0.3)

    assert torch.autograd.gradcheck(loss, (drawn["theta"].requires_grad_(),), eps=1e-6, atol=1e-8)


def test_the_gradient_of_the_self_normalised_form_by_differences() -> None:
    """The normaliser counts as a constant: differences of the loss with the normalisers held agree with autograd."""
    drawn = _drawn(2)
    theta = drawn["theta"].clone().requires_grad_()
    _loss({**drawn, "theta": theta}, 0.3, self_normalised=True).sum().backward()  # type: ignore[no-untyped-call]  # untyped

    def errors(theta: torch.Tensor) -> list[torch.Tensor]:
        x_t, _ = noised(drawn["x0"], drawn["noise"], drawn["t"])
        at = drawn["t"].reshape(-1, 1, 1)
        return [x_t - at * each - drawn["x0"] for each in implicit_velocities(theta, drawn["old"], 0.3)]

    held = [each.abs().mean((1, 2)) for each in errors(drawn["theta"])]

    def value(theta: torch.Tensor) -> float:
        positive, negative = (e.square().mean((1, 2)) / n for e, n in zip(errors(theta), held, strict=True))
        return float((drawn["r"] * positive + (1 - drawn["r"]) * negative).sum())

    assert theta.grad is not None
    for place in range(12):
        step = torch.zeros(12, dtype=torch.float64)
        step[place] = 1e-6
        moved = step.reshape(3, 2, 2)
        difference = (value(drawn["theta"] + moved) - value(drawn["theta"] - moved)) / 2e-6
        assert theta.grad.flatten()[place].item() == pytest.approx(difference, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("self_normalised", [False, True])
def test_an_even_sample_moves_nothing_at_the_start(self_normalised: bool) -> None:
    """With r = 1/2 and v_theta = v_old: v+ = v-, and what one half pulls the other pushes, to exactly nothing."""
    drawn = _drawn()
    drawn["r"] = torch.full((3,), 0.5, dtype=torch.float64)
    drawn["theta"] = drawn["old"].clone().requires_grad_()
    _loss(drawn, 0.4, self_normalised=self_normalised).sum().backward()  # type: ignore[no-untyped-call]  # untyped
    assert drawn["theta"].grad is not None
    assert torch.count_nonzero(drawn["theta"].grad) == 0


def test_a_sure_sample_is_plain_regression() -> None:
    """With r = 1 and beta = 1: the loss is flow matching's |v_theta - v|^2, whatever v_old is."""
    drawn = _drawn()
    drawn["r"] = torch.ones(3, dtype=torch.float64)
    plain = (drawn["theta"] - (drawn["noise"] - drawn["x0"])).square().mean((1, 2))
    torch.testing.assert_close(_loss(drawn, 1.0), plain, rtol=0, atol=1e-15)


@given(r=st.integers(0, 8).map(lambda n: n / 8), beta=st.sampled_from([0.25, 1.0, 2.0]), old=_halves, v=_halves)
def test_where_it_leads(r: float, beta: float, old: float, v: float) -> None:
    """The loss is least at v_old + (2r - 1)/beta (v - v_old): towards a good sample, away from a bad one."""
    t, rs = torch.tensor([0.5], dtype=torch.float64), torch.tensor([r], dtype=torch.float64)

    def loss(theta: float) -> float:
        return nft_loss(_column(theta), _column(old), x0=_column(0), noise=_column(v), t=t, r=rs, beta=beta).item()

    best = old + (2 * r - 1) / beta * (v - old)
    assert loss(best) <= loss(best + 0.01)
    assert loss(best) <= loss(best - 0.01)
    # A parabola of curvature 2 beta^2: a step of 1 costs beta^2.
    assert loss(best + 1) - loss(best) == pytest.approx(beta**2, rel=1e-9, abs=1e-9)


def test_the_old_policy_gets_no_gradient() -> None:
    """v_old is a constant of the loss, whoever made it."""
    drawn = _drawn()
    drawn["theta"].requires_grad_()
    drawn["old"].requires_grad_()
    _loss(drawn, 1.0, self_normalised=True).sum().backward()  # type: ignore[no-untyped-call]  # untyped
    assert drawn["old"].grad is None


def test_an_exact_prediction_is_no_division_by_zero() -> None:
    """The self-normalised form of an error of exactly 0 is 0, and its gradient too."""
    x0, noise = torch.zeros(1, 2), torch.ones(1, 2)
    theta = torch.ones(1, 2, requires_grad=True)
    half, one = torch.tensor([0.5]), torch.tensor([1.0])
    loss = nft_loss(theta, theta, x0=x0, noise=noise, t=half, r=one, beta=1.0, self_normalised=True)
    loss.sum().backward()  # type: ignore[no-untyped-call]  # untyped
    assert loss.item() == 0
    assert theta.grad is not None
    assert theta.grad.tolist() == [[0, 0]]


@pytest.mark.parametrize(
    ("clip", "expected"),
    [(1.0, [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]), (2.0, [0.25, 0.375, 0.5, 0.625, 0.75, 1.0])],
)
def test_the_probability_of_optimality(clip: float, expected: list[float]) -> None:
    """The formula r = 1/2 + 1/2 clip(A / clip, -1, 1), by hand."""
    assert optimality([-1.0, -0.5, 0.0, 0.5, 1.0, 7.0], clip) == expected


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=8), st.floats(1e-3, 1e3))
def test_the_probability_stays_one(advantages: list[float], clip: float) -> None:
    """Whatever the advantages: r lies in [0, 1], grows with them, and 0 gives exactly 1/2."""
    found = optimality(sorted(advantages), clip)
    assert all(0 <= each <= 1 for each in found)
    assert found == sorted(found)
    assert optimality([0.0], clip) == [0.5]
    assert not any(map(math.isnan, found))
