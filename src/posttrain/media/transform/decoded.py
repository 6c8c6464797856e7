# SPDX-License-Identifier: Apache-2.0
"""What a decoder may give: exactly one dense floating tensor of the adapter's shape. Everything else is named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from posttrain.errors import RewardContractError
from posttrain.media.sample import MediaType

if TYPE_CHECKING:
    import torch

__all__ = ["check_decoded", "sample_shape", "seen"]

_EXPECTED: Final[dict[MediaType, str]] = {"video": "[1,3,T,H,W]", "image": "[1,3,1,H,W]"}
_AXES: Final = 5


def check_decoded(value: object, media_type: MediaType) -> torch.Tensor:
    """`value` as the one tensor that it has to be, without its history. Its pixels are looked at by `write_pixels`.

    Raises:
        RewardContractError: it is no tensor, not dense, not floating, or not of the shape; what came is named.
    """
    import torch

    expected = f"the decoder has to give one floating tensor {_EXPECTED[media_type]}"
    if not isinstance(value, torch.Tensor):
        raise RewardContractError(f"{expected}, got {_kind(value)}: return the pixels themselves")
    if value.layout != torch.strided or value.device.type == "meta":
        raise RewardContractError(f"{expected}, got {seen(value)}, which holds no dense pixels")
    if value.dtype not in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        raise RewardContractError(f"{expected} (float32, bfloat16, float16 or float64), got {seen(value)}")
    shape = tuple(value.shape)
    if len(shape) != _AXES or shape[:2] != (1, 3) or 0 in shape or (media_type == "image" and shape[2] != 1):
        raise RewardContractError(f"{expected}, got {seen(value)}")
    return value.detach().resolve_neg()


def sample_shape(pixels: torch.Tensor, media_type: MediaType) -> tuple[int, ...]:
    """Shape of the uint8 array: video [1,3,T,H,W], image [1,H,W,3]."""
    _, channels, frames, height, width = pixels.shape
    return (1, channels, frames, height, width) if media_type == "video" else (1, height, width, channels)


def seen(tensor: torch.Tensor) -> str:
    """Shape, dtype and device of a tensor, for an error."""
    sizes = ",".join(map(str, tensor.shape))
    return f"a tensor [{sizes}] of {str(tensor.dtype).removeprefix('torch.')} on {tensor.device}"


def _kind(value: object) -> str:
    """The type alone: what else a decoder returns may be large, or a secret."""
    name = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    return f"{name} of {len(value)}" if isinstance(value, (list, tuple, dict)) else name
