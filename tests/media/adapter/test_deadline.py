# SPDX-License-Identifier: Apache-2.0
"""One absolute deadline covers decode and service; what comes late is refused, what is too large is not sent."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

from posttrain.errors import RewardContractError, RewardUnavailableError
from posttrain.media import LatentCandidate
from posttrain.rewards import RewardContext, RewardGroupRequest

Make = Callable[..., Any]


def _grey(value: float) -> torch.Tensor:
    return torch.full((1, 3, 2, 4, 6), value)


def _request(latent: Any) -> RewardGroupRequest[LatentCandidate]:
    return RewardGroupRequest("g", (LatentCandidate("t0", latent),), RewardContext())


def test_a_sample_above_the_limit_is_not_spooled(video: Make) -> None:
    """144 bytes are more than 100: the error has both numbers."""
    adapter, scorer = video(max_sample_bytes=100)
    with pytest.raises(RewardContractError, match=r"\[1, 3, 2, 4, 6\] has 144 bytes, above max_sample_bytes .100."):
        adapter.evaluate(_request(_grey(0.0)))
    assert scorer.samples == []


def test_a_late_decode_is_refused(video: Make) -> None:
    """A decode can't be interrupted; when it ends past the deadline its sample is neither sent nor scored."""
    adapter, scorer = video(evaluation_timeout_s=0.01)

    def decode() -> torch.Tensor:
        until = time.monotonic() + 0.02
        while time.monotonic() < until:
            pass
        return _grey(0.0)

    with pytest.raises(
        RewardUnavailableError, match=r"the decode came 0\.\d+ s after the start, past evaluation_timeo"
    ):
        adapter.evaluate(_request(decode))
    assert scorer.samples == []


def test_a_late_score_is_refused(video: Make) -> None:
    """A client that returns a score past the deadline is not believed."""

    def late(array: object) -> float:
        until = time.monotonic() + 0.6
        while time.monotonic() < until:
            pass
        return 1.0

    adapter, scorer = video(evaluation_timeout_s=0.5)
    adapter._scorer = scorer = type(scorer)(late)
    with pytest.raises(RewardUnavailableError, match=r"the service's score came 0\.\d+ s after the start"):
        adapter.evaluate(_request(_grey(0.0)))
    assert len(scorer.samples) == 1


def test_one_deadline_covers_the_decode_and_the_service(video: Make) -> None:
    """The scorer's deadline counts from the start of the decode, not from its own."""
    adapter, scorer = video(evaluation_timeout_s=100)
    started: list[float] = []

    def decode() -> torch.Tensor:
        started.append(time.monotonic())
        while time.monotonic() < started[0] + 0.05:
            pass
        return _grey(0.0)

    before = time.monotonic()
    adapter.evaluate(_request(decode))
    assert before + 100 <= scorer.deadlines[0] <= started[0] + 100
