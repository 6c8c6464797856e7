# SPDX-License-Identifier: Apache-2.0
"""One sample from latent to reward: decode, check, transform, spool, enqueue, poll, all under one absolute deadline."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final, final

from posttrain.errors import RewardConfigError, RewardContractError, RewardUnavailableError, describe
from posttrain.media.adapter.decoder import MediaDecoder
from posttrain.media.config import ServiceConfig, VideoRewardConfig
from posttrain.media.sample import SampleScorer, ServiceScore, SpooledSample
from posttrain.media.spool import SpoolFile
from posttrain.media.transform import check_decoded, npy_header, sample_shape, write_pixels
from posttrain.rewards.metrics.contribution import MetricContribution

__all__ = ["DIAGNOSTICS", "Evaluation", "require_torch"]

DIAGNOSTICS: Final = (
    "decode_seconds",
    "transform_seconds",
    "enqueue_seconds",
    "wait_seconds",
    "spool_bytes",
    "polls",
    "pull_retries",
    "raw_score",
    "score_clipped",
    "orphans",
)
"""Means over the samples: wall times, bytes of one request, pulls, the score before its transform, share clamped; and a
total: the samples that were given up since the last one that was scored, whose remote work may go on."""


@final
@dataclass(slots=True, kw_only=True)
class Evaluation:
    """What one sample goes through. The deadline runs from the moment when this is made."""

    config: ServiceConfig
    decoder: MediaDecoder
    scorer: SampleScorer
    started: float = field(default_factory=monotonic)
    diagnostics: dict[str, MetricContribution] = field(default_factory=dict)

    def reward(self, latent: Any, prompt: str | None) -> float:
        """The reward of one latent.

        Raises:
            RewardContractError: the decoder's output or the service's answer is not what it has to be.
            RewardUnavailableError: the deadline passed, or the service could not answer.
            RewardConfigError: only a person can mend it: no space, no program, no credential.
        """
        line = self.scorer.enqueue_line(prompt)
        pixels = self._decoded(latent)
        shape = sample_shape(pixels, self.config.media_type)
        header = npy_header(shape)
        array_bytes = math.prod(shape)
        if array_bytes > self.config.max_sample_bytes:
            raise RewardContractError(
                f"the sample {list(shape)} has {array_bytes:,} bytes, above max_sample_bytes "
                f"({self.config.max_sample_bytes:,})"
            )
        nbytes = len(line) + len(header) + array_bytes
        with SpoolFile(self.config.spool_dir, nbytes) as spool:
            begun = monotonic()
            spool.write(line)
            spool.write(header)
            tolerance = self.config.range_tolerance if isinstance(self.config, VideoRewardConfig) else 0.0
            write_pixels(pixels, self.config.media_type, tolerance, spool.write)
            del pixels
            self._note("transform_seconds", monotonic() - begun)
            self._check_time("the decode and the transform")
            sample = SpooledSample(
                fd=spool.fileno(),
                nbytes=nbytes,
                line_nbytes=len(line),
                media_type=self.config.media_type,
                shape=shape,
            )
            score = self.scorer.score(sample, deadline=self._deadline)
        self._check_time("the service's score")
        return self._accepted(score, nbytes)

    @property
    def _deadline(self) -> float:
        return self.started + self.config.evaluation_timeout_s

    def _decoded(self, latent: Any) -> Any:
        torch = require_torch()
        begun = monotonic()
        with torch.no_grad():
            decoded = self.decoder.decode(latent)
        pixels = check_decoded(decoded, self.config.media_type)
        if pixels.device.type == "cuda":
            # The kernels may still run: their time is the decode's.
            torch.cuda.synchronize(pixels.device)
        self._note("decode_seconds", monotonic() - begun)
        self._check_time("the decode")
        return pixels

    def _accepted(self, score: ServiceScore, nbytes: int) -> float:
        raw = score.value
        if type(raw) is not float or not math.isfinite(raw):
            raise RewardContractError(f"the service's score has to be one finite float, got {describe(raw)}")
        reward = self.config.score(raw)
        clip = self.config.score_clip
        self._note("enqueue_seconds", score.enqueue_seconds)
        self._note("wait_seconds", score.wait_seconds)
        self._note("spool_bytes", nbytes)
        self._note("polls", score.polls)
        self._note("pull_retries", score.pull_retries)
        self._note("raw_score", raw)
        self._note("score_clipped", float(clip is not None and not clip[0] <= raw <= clip[1]))
        return reward

    def _note(self, name: str, value: float) -> None:
        self.diagnostics[name] = MetricContribution.mean(value)

    def _check_time(self, what: str) -> None:
        """What can't be interrupted is refused when it comes late."""
        taken = monotonic() - self.started
        if taken >= self.config.evaluation_timeout_s:
            raise RewardUnavailableError(
                f"{what} came {taken:.3f} s after the start, past evaluation_timeout_s "
                f"({self.config.evaluation_timeout_s:g} s), and is refused"
            )


def require_torch() -> Any:
    """The module `torch`; `numpy` is looked for too.

    Raises:
        RewardConfigError: one of them is not installed.
    """
    try:
        import numpy as np  # noqa: F401  # torch hands its bytes over through it
        import torch
    except ImportError as error:
        raise RewardConfigError(
            f'a media reward needs {error.name or "torch"}: pip install "posttrain[media]"'
        ) from error
    return torch
