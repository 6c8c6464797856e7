# SPDX-License-Identifier: Apache-2.0
"""What decides a score is in the identity; where something lies on this machine is not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from posttrain.media import ImageReward, ImageRewardConfig, VideoReward, VideoRewardConfig
from posttrain.rewards import RewardCatalog

# Field to another valid value, and whether the identity changes with it. A new field without a row fails the test.
CHANGES: dict[str, tuple[Any, bool]] = {
    "provider_revision": ("r2", True),
    "enqueue_url": ("http://127.0.0.1:10/api/reward/enqueue", True),
    "pull_url": ("http://127.0.0.1:10/api/reward/pull", True),
    "reward": ("other", True),
    "score_key": ("a+b", True),
    "credential": ("ANOTHER_NAME", True),
    "send_prompts": (True, True),
    "connect_timeout_s": (11, True),
    "enqueue_timeout_s": (11, True),
    "pull_timeout_s": (11, True),
    "evaluation_timeout_s": (11, True),
    "poll_interval_s": (2, True),
    "poll_interval_max_s": (11, True),
    "max_response_bytes": (2048, True),
    "max_sample_bytes": (2048, True),
    "spool_dir": ("/another/folder", False),
    "score_clip": ((-5, 5), True),
    "score_scale": (0.5, True),
    "fps": (24, True),
    "range_tolerance": (0.25, True),
}


def _identity(config: Any) -> str:
    adapter: Any = VideoReward if isinstance(config, VideoRewardConfig) else ImageReward
    return RewardCatalog({"media": adapter.spec(config)}).identity("media").sha256


@pytest.mark.parametrize("kind", ["video_config", "image_config"])
def test_each_field_is_in_the_identity_unless_it_is_local(request: pytest.FixtureRequest, kind: str) -> None:
    """One field at a time is changed: the identity changes with each but the spool folder."""
    make: Callable[..., Any] = request.getfixturevalue(kind)
    base = make()
    for field in dataclasses.fields(base):
        value, counts = CHANGES[field.name]
        changed = make(**{field.name: value})
        assert changed != base
        assert (_identity(changed) != _identity(base)) is counts, field.name
        assert (changed.semantic_identity() != base.semantic_identity()) is counts, field.name


def test_every_row_is_of_a_field() -> None:
    """The table holds no field that is gone."""
    names = {field.name for kind in (VideoRewardConfig, ImageRewardConfig) for field in dataclasses.fields(kind)}
    assert set(CHANGES) == names


def test_an_image_is_no_video(
    video_config: Callable[..., VideoRewardConfig], image_config: Callable[..., ImageRewardConfig]
) -> None:
    """The two kinds have identities of their own, also where their common fields are equal."""
    image = image_config(reward="dance_grpo", score_key="overall_reward").semantic_identity()
    video = video_config().semantic_identity()
    assert (image["media_type"], video["media_type"]) == ("image", "video")
    assert "fps" not in image


def test_the_value_of_the_credential_is_no_part(
    video_config: Callable[..., VideoRewardConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rotating the token changes nothing."""
    monkeypatch.setenv("SOME_TOKEN", "one")
    before = _identity(video_config(credential="SOME_TOKEN"))
    monkeypatch.setenv("SOME_TOKEN", "two")
    assert _identity(video_config(credential="SOME_TOKEN")) == before
