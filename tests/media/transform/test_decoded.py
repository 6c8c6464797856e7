# SPDX-License-Identifier: Apache-2.0
"""What a decoder gives is one dense floating tensor of the right shape, or an error that names what it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from posttrain.errors import RewardContractError
from posttrain.media.sample import MediaType
from posttrain.media.transform import check_decoded, sample_shape


class _Output(dict[str, Any]):
    """Like the output object of a model library."""


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (None, "NoneType"),
        (np.zeros((1, 3, 1, 2, 2)), "numpy.ndarray"),
        ([torch.zeros(1, 3, 1, 2, 2)], "list of 1"),
        ((torch.zeros(1, 3, 1, 2, 2), torch.zeros(1)), "tuple of 2"),
        (_Output(sample="SECRET"), r"[a-z.]*test_decoded._Output of 1"),
        (1.0, "float"),
        ("SECRET", "str"),
    ],
)
def test_what_is_no_tensor_is_named_by_its_type(value: Any, named: str) -> None:
    """Also a tuple or an output object with the tensor inside: exactly one tensor, and its content is not shown."""
    with pytest.raises(RewardContractError, match=rf"one floating tensor \[1,3,T,H,W\], got {named}") as caught:
        check_decoded(value, "video")
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("tensor", "named"),
    [
        (torch.zeros(3, 1, 2, 2), r"a tensor \[3,1,2,2\] of float32 on cpu"),
        (torch.zeros(2, 3, 1, 2, 2), r"a tensor \[2,3,1,2,2\] of float32 on cpu"),
        (torch.zeros(1, 4, 1, 2, 2), r"a tensor \[1,4,1,2,2\] of float32 on cpu"),
        (torch.zeros(1, 1, 3, 2, 2), r"a tensor \[1,1,3,2,2\] of float32 on cpu"),
        (torch.zeros(1, 3, 0, 2, 2), r"a tensor \[1,3,0,2,2\] of float32 on cpu"),
        (torch.zeros(1, 3, 1, 2, 0), r"a tensor \[1,3,1,2,0\] of float32 on cpu"),
        (torch.zeros(()), r"a tensor \[\] of float32 on cpu"),
        (torch.zeros(1, 3, 1, 2, 2, dtype=torch.uint8), r"a tensor \[1,3,1,2,2\] of uint8 on cpu"),
        (torch.zeros(1, 3, 1, 2, 2, dtype=torch.int64), r"a tensor \[1,3,1,2,2\] of int64 on cpu"),
        (torch.zeros(1, 3, 1, 2, 2, dtype=torch.bool), r"a tensor \[1,3,1,2,2\] of bool on cpu"),
        (torch.zeros(1, 3, 1, 2, 2, dtype=torch.complex64), r"a tensor \[1,3,1,2,2\] of complex64 on cpu"),
        (torch.zeros(1, 3, 1, 2, 2, dtype=torch.float8_e4m3fn), r"a tensor \[1,3,1,2,2\] of float8_e4m3fn on cpu"),
        (torch.zeros(1, 3, 1, 2, 2).to_sparse(), r"a tensor \[1,3,1,2,2\] of float32 on cpu, which holds no dense"),
        (torch.zeros(1, 3, 1, 2, 2, device="meta"), r"a tensor \[1,3,1,2,2\] of float32 on meta, which holds no dense"),
    ],
)
@pytest.mark.parametrize("media_type", ["video", "image"])
def test_another_shape_dtype_or_layout_is_named(tensor: torch.Tensor, named: str, media_type: MediaType) -> None:
    """The error says shape, dtype and device of what came."""
    with pytest.raises(RewardContractError, match=f"got {named}"):
        check_decoded(tensor, media_type)


def test_an_image_has_one_frame() -> None:
    """Two frames are a video."""
    frames = torch.zeros(1, 3, 2, 4, 6)
    assert sample_shape(check_decoded(frames, "video"), "video") == (1, 3, 2, 4, 6)
    with pytest.raises(RewardContractError, match=r"one floating tensor \[1,3,1,H,W\], got a tensor \[1,3,2,4,6\]"):
        check_decoded(frames, "image")
    assert sample_shape(check_decoded(frames[:, :, :1], "image"), "image") == (1, 4, 6, 3)


def test_history_is_left_behind() -> None:
    """A decoder that switched gradients on again does not get them through the transform."""
    tensor = torch.zeros(1, 3, 1, 2, 2, requires_grad=True)
    checked = check_decoded(tensor * 0.5, "video")
    assert not checked.requires_grad
    assert checked.is_leaf
