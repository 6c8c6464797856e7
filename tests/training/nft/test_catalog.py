# SPDX-License-Identifier: Apache-2.0
"""A reward service that is described in the config becomes a catalog, which every process finds by its path."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from posttrain.errors import RewardConfigError
from posttrain.media import REVISION_SENTINEL, ImageRewardConfig, VideoRewardConfig
from posttrain.runs import load_config
from posttrain.runs.config.nft import NFTRewardConfig
from posttrain.training.nft.catalog import CATALOG, VARIABLE, with_catalog

IMAGE: dict[str, Any] = {
    "provider_revision": "r1",
    "enqueue_url": "http://127.0.0.1:8080/api/reward/enqueue",
    "pull_url": "http://127.0.0.1:8080/api/reward/pull",
    "reward": "brightness",
    "score_key": "brightness",
}


def _config(*overrides: str, media: str = "image", without: str = "") -> Any:
    described = [f"rl.nft.reward.{key}={value}" for key, value in IMAGE.items() if key != without]
    return load_config(None, [f"rl.reward={media}", "rl.group_size=2", f"rl.nft.media={media}", *described, *overrides])


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test describes does not reach the next one."""
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.delenv(VARIABLE)


def test_the_defaults_are_those_of_the_kinds() -> None:
    """A key that is left out means what the field of `ImageRewardConfig` and `VideoRewardConfig` means."""
    image = _config().nft.reward.media_config("image")
    assert image == ImageRewardConfig(**IMAGE, credential=None)
    video = NFTRewardConfig(
        provider_revision="r1", enqueue_url=IMAGE["enqueue_url"], pull_url=IMAGE["pull_url"], fps=16.0
    )
    assert video.media_config("video") == VideoRewardConfig(
        provider_revision="r1", enqueue_url=IMAGE["enqueue_url"], pull_url=IMAGE["pull_url"], fps=16.0, credential=None
    )


def test_every_field_has_a_key() -> None:
    """No setting of the two kinds is out of a config's reach."""
    fields = {each.name for kind in (ImageRewardConfig, VideoRewardConfig) for each in dataclasses.fields(kind)}
    assert set(NFTRewardConfig.model_fields) == fields


def test_a_described_reward_is_a_catalog_that_any_process_finds() -> None:
    """The path resolves to the one provider, with the identity of the described config."""
    config = with_catalog(_config("rl.nft.reward.score_clip=[-1.0, 1.5]", "rl.nft.reward.credential=A_NAME"))
    assert config.reward_catalog == CATALOG
    identity = config.worker().identity[0]
    assert (identity.catalog, identity.provider, identity.revision) == (CATALOG, "image", "r1")
    described: Any = config.catalog().spec("image").semantic_identity
    assert (described["score_clip"], described["credential"]) == ((-1.0, 1.5), "A_NAME")
    # What it is recorded as is read again as the same config.
    assert with_catalog(config) == config


@pytest.mark.parametrize(
    ("override", "changes"),
    [
        ("provider_revision=r2", True),
        ("reward=contrast", True),
        ("score_scale=2.0", True),
        ("evaluation_timeout_s=5.0", True),
        ("credential=OTHER", True),
        ("spool_dir=/var/tmp", False),
    ],
)
def test_what_decides_the_score_is_the_identity(override: str, changes: bool) -> None:
    """All of the description but the paths of this machine."""
    before = with_catalog(_config()).worker().identity
    after = with_catalog(_config(f"rl.nft.reward.{override}")).worker().identity
    assert (before != after) is changes


def test_the_stand_in_for_a_revision_is_refused() -> None:
    """The recipe's revision has to be set by the operator, before anything else happens."""
    with pytest.raises(
        RewardConfigError, match=r"rl.nft.reward: .*(?s:.*)provider_revision: 'SET-THE-DEPLOYED-REVISION'"
    ):
        with_catalog(_config(f"rl.nft.reward.provider_revision={REVISION_SENTINEL}"))


def test_what_is_missing_is_named() -> None:
    """Every key, and those that the kind has no use for."""
    with pytest.raises(RewardConfigError, match=r"(?s)fps: images have no such setting.*pull_url: missing"):
        with_catalog(_config("rl.nft.reward.fps=16.0", without="pull_url"))
    with pytest.raises(RewardConfigError, match=r"rl.nft.media=video:\n  fps: missing"):
        with_catalog(_config(media="video"))


def test_two_descriptions_are_refused() -> None:
    """A catalog of one's own and a described reward: nobody would know which holds."""
    with pytest.raises(RewardConfigError, match=r"are both set: leave one of them out"):
        with_catalog(_config("rl.reward_catalog=mine:catalog"))


def test_a_catalog_of_ones_own_stays() -> None:
    """Without a described reward the config is as it was."""
    config = load_config(None, ["rl.reward=clip", "rl.group_size=2", "rl.reward_catalog=mine:catalog"])
    assert with_catalog(config) is config


def test_the_path_alone_says_what_to_do() -> None:
    """A process that no run has told of its reward can't guess it."""
    with pytest.raises(RewardConfigError, match=r"posttrain nft --config FILE --check"):
        load_config(None, ["rl.reward=image", "rl.group_size=2", f"rl.reward_catalog={CATALOG}"]).catalog()


@pytest.mark.parametrize("text", ["", "[]", '{"media": "image"}', '{"media": "sound", "reward": {"score_clip": null}}'])
def test_a_damaged_description_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever stands in the variable: an error, no guess."""
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(RewardConfigError, match=VARIABLE):
        load_config(None, ["rl.reward=image", "rl.group_size=2", f"rl.reward_catalog={CATALOG}"]).catalog()
