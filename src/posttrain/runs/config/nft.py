# SPDX-License-Identifier: Apache-2.0
"""The section ``rl.nft``: how `posttrain nft` trains. Keys may be set where something else is run."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, final

from pydantic import AfterValidator, BeforeValidator, Field

from posttrain.errors import RewardConfigError, listing
from posttrain.runs.config.grpo import NotNegative
from posttrain.runs.config.kinds import Count, Expected, PathText, Seconds, Seed, Share, Switch, Text, one_of
from posttrain.runs.config.policy import Positive
from posttrain.runs.config.section import Section

if TYPE_CHECKING:
    from posttrain.media import ImageRewardConfig, VideoRewardConfig

__all__ = ["Media", "NFTConfig", "NFTRewardConfig"]

Media: TypeAlias = Literal["image", "video"]


def _as_pair(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _four_k_plus_one(frames: int) -> int:
    if frames % 4 != 1:
        near = max(1, frames - (frames - 1) % 4)
        raise ValueError(f"the video model makes 4 k + 1 frames, got {frames}: write {near} or {near + 4}")
    return frames


def _of_sixteen(pixels: int) -> int:
    if pixels % 16:
        below = pixels - pixels % 16
        raise ValueError(f"expected a multiple of 16 pixels, got {pixels}: write {below} or {below + 16}")
    return pixels


Real: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
Pair: TypeAlias = Annotated[
    tuple[Real, Real], BeforeValidator(_as_pair), Expected("the lowest and the highest number in brackets", "real")
]
Side: TypeAlias = Annotated[
    int, Field(ge=16), AfterValidator(_of_sixteen), Expected("a whole number of at least 16", "whole")
]
Frames: TypeAlias = Annotated[
    int, Field(ge=1), AfterValidator(_four_k_plus_one), Expected("a whole number of at least 1", "whole")
]
Number: TypeAlias = Annotated[float, Field(allow_inf_nan=False), Expected("a finite number", "real")]


@final
class NFTRewardConfig(Section):
    """``rl.nft.reward``: the reward service that scores what is decoded. In use once `enqueue_url` is set.

    The keys are the fields of `posttrain.media.ServiceConfig` and its two kinds, where each is described; here a key
    that is left out takes the default of the kind. Then ``rl.reward`` is ``image`` or ``video``, and no catalog is set.
    """

    provider_revision: Text | None = None
    """Immutable revision of the deployed scorer. The recipes' ``SET-THE-DEPLOYED-REVISION`` is refused."""
    enqueue_url: Text | None = None
    """Full URL of the enqueue endpoint. Default: the rewards come from ``rl.reward_catalog``."""
    pull_url: Text | None = None
    """Full URL of the pull endpoint."""
    reward: Text | None = None
    """The service's name of the reward. Default: the kind's; images have none."""
    score_key: Text | None = None
    """Which series of the answer is the score. Default: the kind's; images have none."""
    credential: Text | None = None
    """Name of the variable that holds the bearer token. Default: the service takes none."""
    send_prompts: Switch = False
    """Whether the prompt is sent with the sample."""
    connect_timeout_s: Seconds = 10.0
    """Seconds to connect."""
    enqueue_timeout_s: Seconds = 300.0
    """Seconds for the whole enqueue, upload included."""
    pull_timeout_s: Seconds = 30.0
    """Seconds for one pull."""
    evaluation_timeout_s: Seconds = 900.0
    """Seconds from the start of the decode to the accepted score."""
    poll_interval_s: Seconds = 1.0
    """Seconds between two pulls."""
    poll_interval_max_s: Seconds = 15.0
    """Cap of the wait that doubles with each failed pull."""
    max_response_bytes: Count = 1 << 20
    """Largest answer that is read."""
    max_sample_bytes: Count | None = None
    """Largest array that is sent. Default: the kind's."""
    spool_dir: PathText | None = None
    """Folder of this machine for the sample that is being sent. Default: the platform's temporary folder."""
    score_clip: Pair | None = None
    """Lowest and highest score, applied first. Default: no clamp."""
    score_scale: Number = 1.0
    """Factor of the clamped score, not 0."""
    fps: Positive | None = None
    """Videos: frames per second that the service is told."""
    range_tolerance: Share | None = None
    """Videos: how far outside of [-1, 1] a pixel may lie and still be clamped. Default: the kind's."""

    @property
    def is_set(self) -> bool:
        """Whether the rewards are described here."""
        return self.enqueue_url is not None

    def media_config(self, media: Media) -> ImageRewardConfig | VideoRewardConfig:
        """The config of the media provider.

        Raises:
            RewardConfigError: naming every key that is missing or not valid.
        """
        from posttrain.media import ImageRewardConfig, VideoRewardConfig

        kind: Any = VideoRewardConfig if media == "video" else ImageRewardConfig
        known = {each.name for each in fields(kind)}
        given = {key: value for key, value in self.model_dump().items() if value is not None}
        # None is what the kind takes for a service without a token; leaving it out would ask for one.
        given.setdefault("credential", None)
        faults = [f"{key}: {media}s have no such setting; leave it out" for key in given if key not in known]
        needed = ["provider_revision", "enqueue_url", "pull_url"]
        needed += ["fps"] if media == "video" else ["reward", "score_key"]
        faults += [f"{key}: missing" for key in needed if key not in given]
        if faults:
            raise RewardConfigError(f"rl.nft.reward is not valid for rl.nft.media={media}:\n{listing(faults)}")
        try:
            made: ImageRewardConfig | VideoRewardConfig = kind(**given)
        except RewardConfigError as error:
            raise RewardConfigError(f"rl.nft.reward: {error.message}") from error
        return made


@final
class NFTConfig(Section):
    """``rl.nft``: samples, loss and steps of a DiffusionNFT run."""

    media: Annotated[Media, one_of(Media)] = "video"
    """What the model makes: an image is a video of one frame, and is sent as an image."""
    steps: Count = 100
    """Batches of the whole run, at least 1."""
    rounds: Count = 1
    """Samples of each rank in a batch, each of another group; a batch has ``rounds * ranks / rl.group_size`` groups."""
    updates: Count = 1
    """Optimizer steps on each batch, each with noise of its own."""
    times_per_sample: Count = 4
    """Times t at which the loss of a sample is taken in an update, one in each of so many equal parts of (0, 1)."""
    learning_rate: Positive = 1e-4
    """Of AdamW; constant."""
    weight_decay: NotNegative = 0.0
    """Of AdamW."""
    max_grad_norm: Positive = 1.0
    """Norm that a larger gradient is scaled down to, after it was averaged over the ranks."""
    beta: Positive = 1.0
    """Strength of guidance of the implicit policies, above 0; the smaller, the further a step goes."""
    advantage_clip: Positive = 1.0
    """Advantage A from which on a sample is surely optimal: ``r = 0.5 + 0.5 clip(A / advantage_clip, -1, 1)``."""
    self_normalised: Switch = True
    """Whether the loss is that of the predicted sample, normalised by its own error, and not that of the velocity."""
    kl_weight: NotNegative = 0.0
    """Weight of the squared distance to the velocity at the start; 0 keeps no copy of those weights."""
    eta_rate: NotNegative = 0.001
    """The old policy keeps ``min(eta_rate * i, eta_max)`` of itself after batch i."""
    eta_max: Share = 0.5
    """See `eta_rate`."""
    sampling_steps: Count = 10
    """Evaluations of the model for a sample."""
    flow_shift: Positive = 3.0
    """How far the sampler's times are moved towards noise."""
    height: Side = 480
    """Pixels, a multiple of 16."""
    width: Side = 832
    """Pixels, a multiple of 16."""
    frames: Frames = 33
    """Frames of a video, 4 k + 1; an image has one whatever stands here."""
    seed: Seed = 0
    """Of the noises. Every sample's follows from it, the step and its place in the batch."""
    save_steps: Count | None = None
    """Batches between two checkpoints, at least 1. Default: one checkpoint, at the end."""
    keep_checkpoints: Count = 2
    """How many checkpoints are kept, the latest ones."""
    ranks_timeout_s: Seconds = 1200.0
    """Seconds that a rank waits for the others; longer than ``evaluation_timeout_s`` of its reward."""
    reward: NFTRewardConfig = NFTRewardConfig()

    @property
    def frame_count(self) -> int:
        """Frames of what is made."""
        return 1 if self.media == "image" else self.frames
