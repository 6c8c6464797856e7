# SPDX-License-Identifier: Apache-2.0
"""Configs of a service that nobody runs, a decoder that gives what it is given, and a scorer that reads the spool."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from posttrain.media import ImageRewardConfig, ServiceScore, SpooledSample, VideoRewardConfig


@pytest.fixture
def video_config(tmp_path: Path) -> Callable[..., VideoRewardConfig]:
    """`video_config(fps=8)` is a valid config with that change; it spools into `tmp_path`."""

    def make(**changes: Any) -> VideoRewardConfig:
        return VideoRewardConfig(
            **{
                "provider_revision": "r1",
                "enqueue_url": "http://127.0.0.1:9/api/reward/enqueue",
                "pull_url": "http://127.0.0.1:9/api/reward/pull",
                "fps": 16,
                "credential": None,
                "max_sample_bytes": 1 << 20,
                "spool_dir": str(tmp_path),
                **changes,
            }
        )

    return make


@pytest.fixture
def image_config(tmp_path: Path) -> Callable[..., ImageRewardConfig]:
    """`image_config(reward="ocr")` is a valid config with that change; it spools into `tmp_path`."""

    def make(**changes: Any) -> ImageRewardConfig:
        return ImageRewardConfig(
            **{
                "provider_revision": "r1",
                "enqueue_url": "http://127.0.0.1:9/api/reward/enqueue",
                "pull_url": "http://127.0.0.1:9/api/reward/pull",
                "reward": "ocr",
                "score_key": "ocr_reward",
                "credential": None,
                "max_sample_bytes": 1 << 20,
                "spool_dir": str(tmp_path),
                **changes,
            }
        )

    return make


class ReadingScorer:
    """Scores a sample by what stands in its spool file: by default the mean of the bytes. Keeps what it saw."""

    def __init__(self, score: Callable[[np.ndarray[Any, Any]], float] | None = None) -> None:
        self._score = (lambda array: float(array.mean())) if score is None else score
        self.lines: list[bytes] = []
        self.prompts: list[str | None] = []
        self.arrays: list[np.ndarray[Any, Any]] = []
        self.samples: list[SpooledSample] = []
        self.deadlines: list[float] = []
        self.status: list[os.stat_result] = []
        self.checked = 0
        self.orphans = 0

    def check_machine(self) -> None:
        """Nothing is missing."""
        self.checked += 1

    def enqueue_line(self, prompt: str | None) -> bytes:
        """A line that is easily told from the array."""
        self.prompts.append(prompt)
        return b'{"line": 1}\n'

    def score(self, sample: SpooledSample, *, deadline: float) -> ServiceScore:
        """Read the whole file as a client would."""
        body = os.pread(sample.fd, sample.nbytes + 1, 0)
        assert len(body) == sample.nbytes
        self.lines.append(body[: sample.line_nbytes])
        self.arrays.append(np.load(io.BytesIO(body[sample.line_nbytes :]), allow_pickle=False))
        self.samples.append(sample)
        self.deadlines.append(deadline)
        self.status.append(os.fstat(sample.fd))
        value = self._score(self.arrays[-1])
        return ServiceScore(value=value, enqueue_seconds=0.25, wait_seconds=0.5, polls=3, pull_retries=1)


@pytest.fixture
def reading_scorer() -> Callable[..., ReadingScorer]:
    """`reading_scorer(function)` scores each array by the function."""
    return ReadingScorer


class GivenDecoder:
    """Its latents are the pixels, or functions that make them."""

    output_range = "neg_one_to_one"

    def decode(self, latent: Any) -> Any:
        """The latent itself, or what it makes."""
        return latent() if callable(latent) else latent


@pytest.fixture
def given_decoder() -> GivenDecoder:
    """A decoder whose latents are the pixels."""
    return GivenDecoder()
