# SPDX-License-Identifier: Apache-2.0
"""The fused pass writes the bytes of the plain formula, and refuses every pixel that is not in range."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain.errors import RewardContractError
from posttrain.media.sample import MediaType
from posttrain.media.transform import check_decoded, npy_header, pixels, sample_shape, write_pixels
from posttrain.media.transform.device import DeviceBench
from posttrain.media.transform.host import HostBench

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]

# Values at which (x + 1) * 127.5 is exactly half: k / 255 - 1 + 1 / 255 is no float, but these are exact in float32.
HALVES = [0.0, -1.0, 1.0, 2 / 255 - 1, 1 / 255 - 1, -0.5, 0.5, -0.0, 2**-24, 1 - 2**-24, -1 + 2**-24]

images = st.tuples(st.just(1), st.just(3), st.just(1), st.integers(1, 5), st.integers(1, 5))
videos = st.tuples(st.just(1), st.just(3), st.integers(1, 4), st.integers(1, 5), st.integers(1, 5))


def _written(tensor: torch.Tensor, media_type: MediaType, tolerance: float = 0.0) -> np.ndarray[Any, Any]:
    parts: list[bytes] = []
    checked = check_decoded(tensor, media_type)
    write_pixels(checked, media_type, tolerance, lambda data: parts.append(bytes(data)))
    shape = sample_shape(checked, media_type)
    return np.frombuffer(b"".join(parts), np.uint8).reshape(shape)


def _plain(tensor: torch.Tensor, media_type: MediaType) -> np.ndarray[Any, Any]:
    """The formula with numpy on a whole array of float32, one step after the other."""
    singles = tensor.to(torch.float32).contiguous().numpy()
    clamped = np.clip(singles, np.float32(-1), np.float32(1))
    rounded: np.ndarray[Any, Any] = np.rint((clamped + np.float32(1)) * np.float32(127.5)).astype(np.uint8)
    return rounded if media_type == "video" else rounded[:, :, 0].transpose(0, 2, 3, 1)


def _tensor(data: st.DataObject, shape: tuple[int, ...], dtype: torch.dtype, bound: float = 1.0) -> torch.Tensor:
    count = int(np.prod(shape))
    value = st.floats(-bound, bound, width=32) | st.sampled_from(HALVES)
    values = data.draw(st.lists(value, min_size=count, max_size=count))
    made = torch.tensor(values, dtype=torch.float64).to(dtype).reshape(shape)
    return made.clamp(-bound, bound) if bound == 1.0 else made


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("media_type", "shapes"), [("video", videos), ("image", images)])
@settings(max_examples=40)
@given(data=st.data())
def test_the_bytes_are_those_of_the_plain_formula(
    data: st.DataObject, media_type: MediaType, shapes: st.SearchStrategy[tuple[int, ...]], dtype: torch.dtype
) -> None:
    """For every dtype and size, value for value, in the order of the service's array."""
    tensor = _tensor(data, data.draw(shapes), dtype)
    assert np.array_equal(_written(tensor, media_type), _plain(tensor, media_type))


@given(data=st.data(), shape=videos)
def test_pixels_within_the_tolerance_are_clamped(data: st.DataObject, shape: tuple[int, ...]) -> None:
    """Up to the tolerance beyond [-1, 1] a pixel is 0 or 255."""
    tensor = _tensor(data, shape, torch.float32, bound=1.25)
    assert np.array_equal(_written(tensor, "video", 0.25), _plain(tensor, "video"))


@given(data=st.data(), shape=videos, block=st.integers(1, 40), order=st.permutations([2, 3, 4]))
def test_any_strides_and_any_blocks_give_the_same_bytes(
    data: st.DataObject, shape: tuple[int, ...], block: int, order: list[int]
) -> None:
    """Views with other strides, and blocks that end anywhere, change nothing."""
    tensor = _tensor(data, shape, torch.float32)
    inverse = [0, 1, *[order.index(axis) + 2 for axis in (2, 3, 4)]]
    view = tensor.permute(0, 1, *order).contiguous().permute(*inverse)
    assert view.shape == tensor.shape
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pixels, "_HOST_BLOCK", block)
        assert np.array_equal(_written(view, "video"), _plain(tensor, "video"))
        assert np.array_equal(_written(view[:, :, :1], "image"), _plain(tensor[:, :, :1], "image"))
        assert np.array_equal(_written(tensor.flip(4), "video"), _plain(tensor.flip(4), "video"))


def test_halves_go_to_the_even_byte() -> None:
    """0 is 127.5 and goes to 128; 0.00390625 * 127.5 above it, 127.998..., is 128 too; -1 / 255 is 127."""
    # (x + 1) * 127.5 = 0.5 needs x + 1 = 1 / 255, which no float32 is; with 127.5 = 255 / 2 exact halves have
    # x + 1 = odd / 255. The one that float32 holds is x + 1 = 1 (255 / 255): 127.5, half way from 127 to 128.
    values = torch.tensor([0.0, 0.00390625, -1 / 255, -1.0, 1.0, -0.0], dtype=torch.float32)
    tensor = values.repeat(3).reshape(1, 3, 1, 1, 6)
    assert _written(tensor, "video")[0, 0, 0, 0].tolist() == [128, 128, 127, 0, 255, 128]


def test_channels_stand_last_in_an_image_and_second_in_a_video() -> None:
    """Red 1, green 0, blue -1 in one pixel are 255, 128, 0."""
    tensor = torch.tensor([1.0, 0.0, -1.0]).reshape(1, 3, 1, 1, 1).expand(1, 3, 1, 2, 3)
    assert _written(tensor, "image").shape == (1, 2, 3, 3)
    assert _written(tensor, "image")[0, 1, 2].tolist() == [255, 128, 0]
    assert _written(tensor, "video").shape == (1, 3, 1, 2, 3)
    assert _written(tensor, "video")[0, :, 0, 1, 2].tolist() == [255, 128, 0]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("media_type", ["video", "image"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), 1.5, -1.5])
@pytest.mark.parametrize("at", [0, 17, 3 * 4 * 5 - 1])
def test_one_bad_pixel_anywhere_is_refused(dtype: torch.dtype, media_type: MediaType, bad: float, at: int) -> None:
    """Not finite, or beyond the range, first, last or in between: the error counts it."""
    tensor = torch.zeros(1, 3, 1, 4, 5, dtype=dtype)
    tensor.view(-1)[at] = bad
    with pytest.raises(RewardContractError, match="1 of 60 pixels that are not"):
        _written(tensor, media_type, 0.25)


def test_what_is_wrong_is_counted_by_kind() -> None:
    """Two NaN, one infinite, three out of range, and the extremes of what is finite."""
    tensor = torch.zeros(1, 3, 1, 4, 5)
    tensor.view(-1)[:6] = torch.tensor([float("nan"), float("nan"), float("-inf"), 2.0, -3.5, 1.0009765625])
    with pytest.raises(RewardContractError, match="pixels that are not") as caught:
        _written(tensor, "image")
    assert caught.value.message == (
        "the decoder has to give finite pixels in [-1, 1] exactly, got a tensor [1,3,1,4,5] of float32 on cpu with "
        "6 of 60 pixels that are not (NaN: 2, infinite: 1, out of range: 3); its finite pixels lie in [-3.5, 2]"
    )


def test_nothing_finite_has_no_extremes() -> None:
    """A decoder that diverged altogether is told so."""
    with pytest.raises(RewardContractError, match=r"NaN: 3, infinite: 0, out of range: 0\); no pixel is finite"):
        _written(torch.full((1, 3, 1, 1, 1), float("nan")), "video", 1e-3)


@pytest.mark.parametrize(
    ("media_type", "tolerance", "value", "ok"),
    [
        ("image", 0.0, 1.0, True),
        ("image", 0.0, 1.0 + 2**-23, False),
        ("video", 2**-10, 1.0 + 2**-10, True),
        ("video", 2**-10, 1.0 + 2**-10 + 2**-23, False),
        ("video", 2**-10, -1.0 - 2**-10, True),
        ("video", 2**-10, -1.0 - 2**-10 - 2**-23, False),
    ],
)
def test_the_bound_is_exact(media_type: MediaType, tolerance: float, value: float, ok: bool) -> None:
    """At the bound a pixel is taken, one float32 beyond it is refused."""
    tensor = torch.full((1, 3, 1, 1, 1), value)
    if ok:
        assert _written(tensor, media_type, tolerance).max() == (255 if value > 0 else 0)
    else:
        with pytest.raises(RewardContractError, match="out of range: 3"):
            _written(tensor, media_type, tolerance)


def test_float64_is_held_against_the_range_before_it_is_rounded() -> None:
    """1 + 1e-12 would be 1 in float32; exactly means exactly."""
    with pytest.raises(RewardContractError, match="out of range: 3"):
        _written(torch.full((1, 3, 1, 1, 1), 1 + 1e-12, dtype=torch.float64), "image")


def test_the_decoders_tensor_is_not_changed() -> None:
    """The transform reads; a decoder may keep what it gave."""
    tensor = torch.tensor([1.25, -1.25, 0.5]).reshape(1, 3, 1, 1, 1)
    before = tensor.clone()
    _written(tensor, "video", 0.25)
    assert torch.equal(tensor, before)


@pytest.mark.parametrize("shape", [(1, 3, 121, 704, 1280), (1, 480, 640, 3), (1, 1, 1, 3)])
def test_the_header_is_numpys(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Header and data together are what ``numpy.save(..., allow_pickle=False)`` writes."""
    small = np.zeros((*([1] * (len(shape) - 1)), 3), np.uint8)
    written = io.BytesIO()
    np.save(written, small, allow_pickle=False)
    assert npy_header(small.shape) + small.tobytes() == written.getvalue()
    assert np.lib.format.read_magic(io.BytesIO(npy_header(shape))) == (1, 0)
    stream = io.BytesIO(npy_header(shape)[8:])
    assert np.lib.format.read_array_header_1_0(stream) == (shape, False, np.dtype(np.uint8))


def test_a_default_device_of_the_model_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry that makes ``meta`` (or its accelerator) the default device still gets the bytes."""
    tensor = torch.zeros(1, 3, 1, 2, 2)
    with torch.device("meta"):
        assert _written(tensor, "video").tolist() == np.full((1, 3, 1, 2, 2), 128).tolist()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("media_type", "shapes"), [("video", videos), ("image", images)])
@settings(max_examples=20)
@given(data=st.data(), block=st.integers(15, 40))
def test_the_work_on_a_device_gives_the_same_bytes(
    data: st.DataObject,
    block: int,
    media_type: MediaType,
    shapes: st.SearchStrategy[tuple[int, ...]],
    dtype: torch.dtype,
) -> None:
    """The bench of an accelerator, here on the processor, agrees with the plain formula and with the other bench."""
    tensor = _tensor(data, data.draw(shapes), dtype, bound=1.25)
    bench = DeviceBench(block, interleaved=media_type == "image", device=tensor.device)
    written = b""
    for part in pixels._blocks(tensor, media_type, block):
        bench.take(part)
        assert not bench.is_plain(exactly=False)
        assert bench.extremes() == (part.min().item(), part.max().item())
        written += bytes(bench.transformed(clamp=True))
    assert written == _plain(tensor, media_type).tobytes()


@pytest.mark.parametrize("at", [0, 7, 14])
def test_a_nan_is_seen_on_a_device(at: int) -> None:
    """Wherever it stands in a block, both extremes are NaN there."""
    block = torch.zeros(15)
    block[at] = float("nan")
    bench = DeviceBench(15, interleaved=False, device=block.device)
    bench.take(block)
    least, most = bench.extremes()
    assert (least != least, most != most) == (True, True)  # noqa: PLR0124  # what a NaN does


@pytest.mark.parametrize(
    ("value", "exactly", "plain"),
    [
        (0.0, True, True),
        (-1.0, True, True),
        (1 - 2**-23, True, True),
        (1 - 2**-24, True, False),  # its sum with 1 is rounded to 2 as well
        (1.0, False, True),
        (1.0, True, False),  # not sure: the extremes decide
        (1 + 2**-23, True, False),
        (1 + 2**-22, False, False),
        (-1 - 2**-23, False, False),
        (-1.5, False, False),
        (float("nan"), False, False),
        (-float("nan"), False, False),
        (float("inf"), False, False),
        (-float("inf"), False, False),
    ],
)
def test_one_look_is_enough_only_where_it_is_sure(value: float, *, exactly: bool, plain: bool) -> None:
    """The one pass passes no pixel that is out of range; what it does not pass is looked at again."""
    block = torch.zeros(15)
    block[7] = value
    bench = HostBench(15, interleaved=False)
    bench.take(block)
    assert bench.is_plain(exactly=exactly) is plain
