# SPDX-License-Identifier: Apache-2.0
"""The exact fp32 transform of pixels: clamp to [-1, 1], (x + 1) * 127.5, round half to even, uint8.

One pass over blocks that fit the processor's cache: each is checked, transformed and handed on while it is there, so
the memory above the input stays flat. On another device the blocks are larger, and the work is done there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NoReturn

from posttrain.errors import RewardContractError
from posttrain.media.sample import MediaType
from posttrain.media.transform.decoded import seen
from posttrain.media.transform.device import DeviceBench
from posttrain.media.transform.host import HostBench

if TYPE_CHECKING:
    import torch

__all__ = ["write_pixels"]

_HOST_BLOCK: Final = 1 << 17
"""Pixels of a block: 512 KiB of float32, which stays in the second-level cache. Measured in docs/design/019."""
_STEP: Final = 2.0**-23
"""From 1 to the next float32."""
_DEVICE_BLOCK: Final = 1 << 22
"""On an accelerator a block has to be worth its launches and its copy: 16 MiB of float32."""


def write_pixels(
    pixels: torch.Tensor, media_type: MediaType, tolerance: float, write: Callable[[memoryview], None]
) -> None:
    """Check every pixel, transform it, and write the bytes of the uint8 array in C order.

    float16 and bfloat16 are widened exactly; float64 is held against the range as it is, then rounded to float32.

    Args:
        pixels: as `check_decoded` gave it; any strides, any device.
        media_type: the order of the bytes: video [1,3,T,H,W], image [1,H,W,3].
        tolerance: how far outside of [-1, 1] a pixel may lie and still be clamped.
        write: takes the bytes, block after block.

    Raises:
        RewardContractError: a pixel is NaN, infinite or out of range; how many are, and the extremes of the
            others, are named. Blocks before it were written.
    """
    block = _HOST_BLOCK if pixels.device.type == "cpu" else _DEVICE_BLOCK
    bench = _bench(pixels, media_type, block)
    low, high = -1.0 - tolerance, 1.0 + tolerance
    for part in _blocks(pixels, media_type, block):
        bench.take(part)
        clamp = False
        if not bench.is_plain(exactly=tolerance < _STEP):
            least, most = bench.extremes()
            # A comparison with NaN is false.
            if not (least >= low and most <= high):
                _refuse(pixels, media_type, tolerance)
            clamp = least < -1.0 or most > 1.0
        write(bench.transformed(clamp=clamp))


def _bench(pixels: torch.Tensor, media_type: MediaType, block: int) -> HostBench | DeviceBench:
    # A row is never cut, so one that is longer than a block decides.
    row = pixels.shape[4] * (pixels.shape[1] if media_type == "image" else 1)
    size = min(max(block, row), pixels.numel())
    if pixels.device.type == "cpu":
        return HostBench(size, interleaved=media_type == "image")
    return DeviceBench(size, interleaved=media_type == "image", device=pixels.device)


def _blocks(pixels: torch.Tensor, media_type: MediaType, block: int) -> Iterator[torch.Tensor]:
    """Views of the pixels in the order of the bytes: flat, [rows,W], or for an image [3,rows,W]."""
    _, channels, frames, height, width = pixels.shape
    if media_type == "image":
        rows = max(1, block // (channels * width))
        yield from (pixels[0, :, 0, top : top + rows] for top in range(0, height, rows))
    elif pixels.is_contiguous():
        flat = pixels.view(-1)
        yield from (flat[start : start + block] for start in range(0, flat.numel(), block))
    else:
        rows = max(1, block // width)
        for channel in range(channels):
            for frame in range(frames):
                plane = pixels[0, channel, frame]
                yield from (plane[top : top + rows] for top in range(0, height, rows))


def _refuse(pixels: torch.Tensor, media_type: MediaType, tolerance: float) -> NoReturn:
    """Look at every pixel to say what is wrong; slower than the pass that found it, in as little memory."""
    import torch

    nans = infinite = outside = 0
    least, most = float("inf"), float("-inf")
    for part in _blocks(pixels, media_type, _HOST_BLOCK):
        finite = torch.isfinite(part)
        nan = int(torch.isnan(part).sum())
        nans += nan
        infinite += part.numel() - int(finite.sum()) - nan
        sound = part[finite]
        outside += int(((sound < -1.0 - tolerance) | (sound > 1.0 + tolerance)).sum())
        if sound.numel():
            least, most = min(least, sound.amin().item()), max(most, sound.amax().item())
    bad = nans + infinite + outside
    extremes = f"its finite pixels lie in [{least:.9g}, {most:.9g}]" if least <= most else "no pixel is finite"
    allowed = f"[-1, 1] within {tolerance:g}" if tolerance else "[-1, 1] exactly"
    raise RewardContractError(
        f"the decoder has to give finite pixels in {allowed}, got {seen(pixels)} with {bad:,} of {pixels.numel():,} "
        f"pixels that are not (NaN: {nans:,}, infinite: {infinite:,}, out of range: {outside:,}); {extremes}"
    )
