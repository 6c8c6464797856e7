# SPDX-License-Identifier: Apache-2.0
"""The transform of one block in the processor, with numpy, whose kernels are the faster ones there."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, final

if TYPE_CHECKING:
    import torch

__all__ = ["HostBench"]

_WHOLE: Final = float(1 << 23)
"""From here on a float32 has no fraction: adding it rounds half to even and leaves the integer in the lowest bits."""
_BITS_OF_TWO: Final = 0x40000000


@final
class HostBench:
    """Buffers for blocks of at most `size` pixels, used again for each.

    Args:
        size: pixels of the largest block.
        interleaved: whether the channels of a block [3,rows,W] stand last in its bytes.
    """

    def __init__(self, size: int, *, interleaved: bool) -> None:
        import numpy as np

        self._np: Any = np
        self._interleaved = interleaved
        self._floats: Any = np.empty(size, np.float32)
        self._bits: Any = self._floats.view(np.uint32)
        self._bytes: Any = np.empty(size, np.uint8)
        self._given: Any = None
        self._raised = False

    def take(self, part: torch.Tensor) -> None:
        """The block to work on."""
        import torch

        self._raised = False

        if part.dtype in (torch.float32, torch.float64):
            self._given = part.numpy()
        else:
            # numpy has no bfloat16 and is slow with float16; to widen either is exact.
            self._given = self._floats[: part.numel()].reshape(part.shape)
            torch.from_numpy(self._given).copy_(part)

    def is_plain(self, *, exactly: bool) -> bool:
        """Whether every pixel is in [-1, 1] for sure, found in one pass; False says nothing.

        Args:
            exactly: whether 1 + 2^-23 is out of range: the one float32 beyond 1 that rounds to 2 when 1 is added.
        """
        np = self._np
        if self._given.dtype != np.float32 or self._given.base is self._floats:
            return False
        count = self._given.size
        np.add(self._given, np.float32(1.0), out=self._floats[:count].reshape(self._given.shape))
        self._raised = True
        # As integers, the floats of [0, 2] end at the bits of 2; whatever is negative, larger or NaN lies above.
        most = int(self._bits[:count].max())
        return most < _BITS_OF_TWO or (most == _BITS_OF_TWO and not exactly)

    def extremes(self) -> tuple[float, float]:
        """The block's least and greatest value, both NaN when there is a NaN."""
        return float(self._given.min()), float(self._given.max())

    def transformed(self, *, clamp: bool) -> memoryview:
        """The bytes of the block that was taken; they are valid until the next."""
        np, given = self._np, self._given
        count, shape = math.prod(given.shape), given.shape
        floats = self._floats[:count].reshape(shape)
        if clamp or given.dtype != np.float32:
            np.copyto(floats, given, casting="same_kind")
            np.clip(floats, np.float32(-1.0), np.float32(1.0), out=floats)
            given, self._raised = floats, False
        if not self._raised:
            np.add(given, np.float32(1.0), out=floats)
        np.multiply(floats, np.float32(127.5), out=floats)
        np.add(floats, np.float32(_WHOLE), out=floats)
        data = self._bytes[:count]
        target = data.reshape(*shape[1:], shape[0]).transpose(2, 0, 1) if self._interleaved else data.reshape(shape)
        np.copyto(target, self._bits[:count].reshape(shape), casting="unsafe")
        return memoryview(data)
