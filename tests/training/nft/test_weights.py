# SPDX-License-Identifier: Apache-2.0
"""The weights of the trained, the old and the reference policy."""

from __future__ import annotations

import pytest
import torch

from posttrain.training.nft.weights import PolicyWeights, decay


def _layer(value: float = 1.0) -> torch.nn.Linear:
    layer = torch.nn.Linear(2, 2, bias=True)
    with torch.no_grad():
        layer.weight.fill_(value)
        layer.bias.zero_()
    return layer


def _only(tensor: torch.Tensor) -> float:
    """The value that every element has."""
    (value,) = set(tensor.flatten().tolist())
    return float(value)


def test_how_much_of_the_old_policy_stays() -> None:
    """eta_i = min(rate * i, largest), by hand."""
    assert [decay(step, 0.25, 0.6) for step in (1, 2, 3, 4)] == [0.25, 0.5, 0.6, 0.6]
    assert decay(1, 0.0, 0.5) == 0


def test_the_old_policy_follows() -> None:
    """theta_old <- eta theta_old + (1 - eta) theta: of 1 and 5 with eta 0.25, 0.25 + 3.75 = 4; with 0 it is theta."""
    layer = _layer(1.0)
    weights = PolicyWeights(layer, reference=False)
    with torch.no_grad():
        layer.weight.fill_(5.0)
    weights.follow(0.25)
    assert _only(weights.copies["old"]["weight"]) == 4.0
    weights.follow(0.0)
    assert _only(weights.copies["old"]["weight"]) == 5.0
    assert _only(layer.weight) == 5.0


def test_the_module_is_another_policy_meanwhile() -> None:
    """The old weights are in it inside of the block, the trained ones afterwards, also when the block fails."""
    layer = _layer(1.0)
    weights = PolicyWeights(layer, reference=True)
    with torch.no_grad():
        layer.weight.fill_(3.0)
    weights.follow(0.5)
    seen = []
    for which in ("old", "reference"):
        with weights.holding(which):
            seen.append(_only(layer.weight))
    assert seen == [2.0, 1.0]
    with pytest.raises(ZeroDivisionError, match="division"), weights.holding("old"):
        _ = 1 // 0
    assert _only(layer.weight) == 3.0
    assert _only(weights.copies["old"]["weight"]) == 2.0


def test_only_what_is_trained_is_copied() -> None:
    """A frozen weight has no copy, and the reference is kept only where it is asked for."""
    layer = _layer()
    layer.bias.requires_grad_(False)
    weights = PolicyWeights(layer, reference=False)
    assert list(weights.trained) == ["weight"]
    assert list(weights.copies) == ["old"]


def test_the_digest_tells_any_bit_apart() -> None:
    """Of the trained and of the old weights; a copy of the state has the same one."""
    one, other = (PolicyWeights(_layer(), reference=False) for _ in range(2))
    assert one.sha256() == other.sha256()
    with torch.no_grad():
        other.copies["old"]["weight"][0, 0] = torch.nextafter(torch.tensor(1.0), torch.tensor(2.0))
    assert one.sha256() != other.sha256()
    one.load(other.state())
    assert one.sha256() == other.sha256()
