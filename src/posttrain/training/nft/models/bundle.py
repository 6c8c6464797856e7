# SPDX-License-Identifier: Apache-2.0
"""A model of a rank: what is trained, what decodes, what reads prompts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from posttrain.training.nft.models.decoder import WanDecoder
from posttrain.training.nft.models.text import TextEncoder

if TYPE_CHECKING:
    import torch

__all__ = ["DiffusionModel"]


@final
@dataclass(frozen=True, kw_only=True)
class DiffusionModel:
    """Everything that a run needs of a checkpoint, on one device."""

    transformer: Any
    """A Wan transformer; its parameters with `requires_grad` are trained."""
    decoder: WanDecoder
    encode: TextEncoder
    device: torch.device
    latent_shape: tuple[int, int, int, int]
    """[C, T, H, W] of one sample."""
    bfloat16: bool = False
    """Whether the transformer computes in bfloat16; its trained weights are float32 all the same."""

    @contextmanager
    def precision(self) -> Iterator[None]:
        """The precision that the transformer computes in."""
        import torch

        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.bfloat16):
            yield
