# SPDX-License-Identifier: Apache-2.0
"""The trained weights beside those of the old policy, which samples, and of the reference."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeAlias, final

if TYPE_CHECKING:
    import torch

__all__ = ["PolicyWeights", "decay"]

Which: TypeAlias = Literal["old", "reference"]


def decay(step: int, rate: float, largest: float) -> float:
    """``eta_i = min(rate * i, largest)``: how much of the old policy stays after step i, from 1."""
    return min(rate * step, largest)


@final
class PolicyWeights:
    """The trainable parameters of one module, a copy of them for the old policy, and one for the reference.

    Only what is trained is copied: of a model with LoRA adapters that is the adapters, and the reference, in which they
    do nothing, is the model without them.

    Args:
        module: its parameters with `requires_grad` are the trained ones.
        reference: whether the weights as they are now are kept, for a KL term.
    """

    def __init__(self, module: torch.nn.Module, *, reference: bool) -> None:
        self.trained: dict[str, torch.nn.Parameter] = {
            name: each for name, each in module.named_parameters() if each.requires_grad
        }
        """Name to parameter."""
        self.copies: dict[Which, dict[str, torch.Tensor]] = {"old": self._copied()}
        """The other policies, by name."""
        if reference:
            self.copies["reference"] = self._copied()

    @contextmanager
    def holding(self, which: Which) -> Iterator[None]:
        """Let the module be another policy meanwhile.

        No graph may be alive that is to be differentiated afterwards: it would find these weights in it.
        """
        copies = self.copies[which]
        try:
            self._exchange(copies)
            yield
        finally:
            self._exchange(copies)

    def follow(self, eta: float) -> None:
        """``theta_old <- eta theta_old + (1 - eta) theta``."""
        for name, each in self.trained.items():
            # As it stands in the formula; eta = 0 gives theta to the bit.
            self.copies["old"][name].mul_(eta).add_(each.detach(), alpha=1 - eta)

    def state(self) -> dict[str, dict[str, torch.Tensor]]:
        """Everything, for a checkpoint."""
        trained = {name: each.detach() for name, each in self.trained.items()}
        return {"trained": trained, **{str(which): tensors for which, tensors in self.copies.items()}}

    def load(self, state: Mapping[str, Mapping[str, torch.Tensor]]) -> None:
        """What `state` gave, of the same model.

        Raises:
            KeyError: it lacks a weight.
        """
        for which, tensors in self.state().items():
            for name, tensor in tensors.items():
                tensor.copy_(state[which][name])

    def sha256(self) -> str:
        """Digest of the trained weights and the old ones: equal on two ranks if every bit is."""
        import torch

        digest = hashlib.sha256()
        for which in ("trained", "old"):
            for name, tensor in sorted(self.state()[which].items()):
                digest.update(f"{which} {name} {tensor.dtype} {tuple(tensor.shape)}".encode())
                digest.update(tensor.contiguous().view(torch.uint8).cpu().numpy().tobytes())
        return digest.hexdigest()

    def _copied(self) -> dict[str, torch.Tensor]:
        return {name: each.detach().clone() for name, each in self.trained.items()}

    def _exchange(self, copies: dict[str, torch.Tensor]) -> None:
        for name, each in self.trained.items():
            each.data, copies[name] = copies[name], each.data
