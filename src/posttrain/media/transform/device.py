# SPDX-License-Identifier: Apache-2.0
"""The transform of one block where the pixels lie, with torch: only uint8 crosses to the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    import torch

__all__ = ["DeviceBench"]


@final
class DeviceBench:
    """Buffers for blocks of at most `size` pixels, used again for each.

    Args:
        size: pixels of the largest block.
        interleaved: whether the channels of a block [3,rows,W] stand last in its bytes.
        device: where the pixels lie.
    """

    def __init__(self, size: int, *, interleaved: bool, device: torch.device) -> None:
        import torch

        self._interleaved = interleaved
        self._floats = torch.empty(size, dtype=torch.float32, device=device)
        self._bytes = torch.empty(size, dtype=torch.uint8, device=device)
        self._host = torch.empty(size, dtype=torch.uint8, device="cpu")
        self._given = self._floats

    def take(self, part: torch.Tensor) -> None:
        """The block to work on."""
        self._given = part

    def is_plain(self, *, exactly: bool) -> bool:  # noqa: ARG002  # as the bench of the processor
        """Nothing is known before the extremes are: passes cost little here."""
        return False

    def extremes(self) -> tuple[float, float]:
        """The block's least and greatest value, both NaN when there is a NaN."""
        return self._given.amin().item(), self._given.amax().item()

    def transformed(self, *, clamp: bool) -> memoryview:
        """The bytes of the block that was taken; they are valid until the next."""
        count, shape = self._given.numel(), self._given.shape
        floats = self._floats[:count].view(shape).copy_(self._given)
        if clamp:
            floats.clamp_(-1.0, 1.0)
        floats.add_(1.0).mul_(127.5).round_()
        data = self._bytes[:count]
        if self._interleaved:
            channels, rows, width = shape
            data.view(rows, width, channels).permute(2, 0, 1).copy_(floats)
        else:
            data.view(shape).copy_(floats)
        host: Any = self._host[:count].copy_(data).numpy()
        return memoryview(host)
