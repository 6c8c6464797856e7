# SPDX-License-Identifier: Apache-2.0
"""A raw score is clamped, then scaled, as a tensor of one float32 would be, to the bit."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.errors import RewardContractError
from posttrain.media import VideoRewardConfig
from posttrain.media.config.fp32 import fp32, transformed_score
from strategies import finite_floats, wide_floats

singles = st.floats(width=32, allow_nan=False, allow_infinity=False)
moderate = st.floats(-1e6, 1e6, width=32)


def test_the_clamp_comes_before_the_scale(video_config: Callable[..., VideoRewardConfig]) -> None:
    """Case service-08: -4.2767857 clamped to [-1, 1] is -1, times 2 is -2; scaled first it would be -1."""
    config = video_config(score_clip=(-1, 1), score_scale=2.0)
    assert config.score(-4.276785373687744) == -2.0
    assert config.score(0.25) == 0.5


def test_without_clamp_and_scale_the_score_is_rounded_to_single_precision(
    video_config: Callable[..., VideoRewardConfig],
) -> None:
    """0.1 in single precision is 13421773 / 2^27 = 0.100000001490116..."""
    assert video_config().score(0.1) == 13421773 / 2**27


@given(wide_floats)
def test_rounding_to_single_precision_is_numpys(value: float) -> None:
    """Nearest, ties to even, infinite beyond the range, subnormals kept."""
    with np.errstate(over="ignore"):
        expected = float(np.float32(value))
    assert repr(fp32(value)) == repr(expected)


@given(finite_floats, st.tuples(moderate, moderate).map(sorted).filter(lambda pair: pair[0] < pair[1]), moderate)
def test_the_transform_is_that_of_a_float32_array(raw: float, clip: list[float], scale: float) -> None:
    """Bit for bit what numpy gives for an array of float32: clip, then multiply."""
    with np.errstate(over="ignore"):
        single = np.array([raw], dtype=np.float64).astype(np.float32)
    low, high = np.float32(clip[0]), np.float32(clip[1])
    expected = np.clip(single, low, high) * np.float32(scale)
    result = transformed_score(raw, (clip[0], clip[1]), scale)
    assert (type(result), result) == (float, float(expected[0]))


@given(singles, singles.filter(bool))
def test_a_product_beyond_single_precision_is_an_error(raw: float, scale: float) -> None:
    """Without a clamp the product is numpy's, or an error where numpy's is infinite; never infinity, never a zero."""
    with np.errstate(over="ignore", under="ignore"):
        expected = float(np.float32(raw) * np.float32(scale))
    if math.isfinite(expected):
        assert transformed_score(raw, None, scale) == expected
    else:
        with pytest.raises(RewardContractError, match="beyond the range of single precision; set score_clip"):
            transformed_score(raw, None, scale)


@pytest.mark.parametrize("raw", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_not_finite_passes_no_clamp(raw: float) -> None:
    """A NaN goes through a naive clamp, and infinity would become the bound: both are errors."""
    with pytest.raises(RewardContractError, match="the service's score has to be finite"):
        transformed_score(raw, (-1.0, 1.0), 1.0)


def test_a_large_finite_score_is_clamped() -> None:
    """1e300 is beyond single precision, but it is a number above the bound."""
    assert transformed_score(1e300, (-1.0, 0.5), 1.0) == 0.5
