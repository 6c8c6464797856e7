# SPDX-License-Identifier: Apache-2.0
"""The media configs are plain frozen values that name every field that is not valid, and never a secret."""

from __future__ import annotations

import dataclasses
import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from posttrain.errors import RewardConfigError
from posttrain.media import REVISION_SENTINEL, ImageRewardConfig, VideoRewardConfig

CONFIGS = ["video_config", "image_config"]


@pytest.fixture(params=CONFIGS)
def config_of(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Both kinds of config in turn."""
    make: Callable[..., Any] = request.getfixturevalue(request.param)
    return make


def _faults(make: Callable[..., Any], **changes: Any) -> list[str]:
    with pytest.raises(RewardConfigError, match="is not valid") as caught:
        make(**changes)
    return [line.removeprefix("  ") for line in caught.value.message.splitlines()[1:]]


def test_the_configs_need_neither_numpy_nor_torch(fresh_python: Callable[[str], str]) -> None:
    """Making one in a fresh process loads no array library, and no network library."""
    program = (
        "import sys\n"
        "from posttrain.media.config import ImageRewardConfig, VideoRewardConfig\n"
        "from posttrain.media import ImageReward, VideoReward\n"
        "where = dict(provider_revision='r', enqueue_url='http://h/e', pull_url='http://h/p')\n"
        "VideoReward(VideoRewardConfig(fps=16, **where)), VideoReward.spec(VideoRewardConfig(fps=16, **where))\n"
        "ImageReward.spec(ImageRewardConfig(reward='a', score_key='b', **where)).factory()\n"
        "print([name for name in ('numpy', 'torch', 'PIL', 'aiohttp', 'http.client', 'ssl') if name in sys.modules])"
    )
    assert fresh_python(program).strip() == "[]"


def test_defaults_are_those_of_the_deployed_video_service() -> None:
    """A video config needs a revision, two URLs and the frame rate; the rest has the documented default."""
    config = VideoRewardConfig(
        provider_revision="r1", enqueue_url="https://h/api/enqueue", pull_url="https://h/api/pull", fps=16
    )
    assert (config.reward, config.score_key, config.media_type) == ("dance_grpo", "overall_reward", "video")
    assert (config.score_clip, config.score_scale, config.send_prompts) == (None, 1.0, False)
    assert (config.spool_dir, config.credential) == (None, "REWARD_SERVICE_TOKEN")
    # One clip of 121 frames of 704 by 1280 fits: 3 * 121 * 704 * 1280 = 327,106,560 bytes.
    assert config.max_sample_bytes == 536_870_912


@pytest.mark.parametrize("kind", [VideoRewardConfig, ImageRewardConfig])
def test_every_field_is_documented(kind: type, source: Any) -> None:
    """A line of text stands under each field, in the class that declares it first."""
    package = source / "posttrain" / "media" / "config"
    text = "".join((package / f"{name}.py").read_text() for name in ("service", "video", "image"))
    lines = [line.strip() for line in text.splitlines()]
    for field in dataclasses.fields(kind):
        at = next(index for index, line in enumerate(lines) if line.startswith(f"{field.name}: "))
        assert lines[at + 1].startswith('"""'), field.name


def test_a_config_can_not_be_changed(config_of: Callable[..., Any]) -> None:
    """It is frozen, holds no other attribute, hashes, and pickles to an equal value."""
    config = config_of(score_clip=(-1, 1))
    with pytest.raises(dataclasses.FrozenInstanceError, match="reward"):
        config.reward = "other"
    assert not hasattr(config, "__dict__")
    back = pickle.loads(pickle.dumps(config))  # noqa: S301  # we wrote the bytes ourselves
    assert (back, hash(back)) == (config, hash(config))


def test_numbers_become_floats(video_config: Callable[..., VideoRewardConfig]) -> None:
    """An int and the float of its value make one config, so they have one identity."""
    ints = video_config(fps=16, pull_timeout_s=5, score_clip=(-5, 5), score_scale=2, range_tolerance=0)
    floats = video_config(fps=16.0, pull_timeout_s=5.0, score_clip=(-5.0, 5.0), score_scale=2.0, range_tolerance=0.0)
    assert repr(ints) == repr(floats)


def test_the_sentinel_of_the_recipes_is_refused(config_of: Callable[..., Any]) -> None:
    """A recipe can't be run before somebody says which scorer is deployed."""
    assert REVISION_SENTINEL == "SET-THE-DEPLOYED-REVISION"
    for left in ("SET-THE-DEPLOYED-REVISION", " SET-THE-DEPLOYED-REVISION\n"):
        (fault,) = _faults(config_of, provider_revision=left)
        assert fault.startswith("provider_revision: 'SET-THE-DEPLOYED-REVISION' stands for the revision that you")


_NUMBERS = ["0", None, math.nan, math.inf, -1, 0, True, 10**400]


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("provider_revision", ["", "  ", None, 1]),
        ("reward", ["", "a b", "a/b", None, "a\n", 'a"']),
        ("score_key", ["", "a+", "+", "a b", None, "a++b"]),
        ("credential", ["", "a b", "1A", "tok-en", 1, "A=B"]),
        ("send_prompts", [1, None, "yes"]),
        ("connect_timeout_s", [*_NUMBERS, 86_401]),
        ("enqueue_timeout_s", _NUMBERS),
        ("pull_timeout_s", _NUMBERS),
        ("evaluation_timeout_s", _NUMBERS),
        ("poll_interval_s", [*_NUMBERS, 15.5]),
        ("poll_interval_max_s", [*_NUMBERS, 0.5]),
        ("max_response_bytes", [0, 1023, 1e6, True, None, (1 << 30) + 1]),
        ("max_sample_bytes", [0, -1, 1e6, True, None]),
        ("spool_dir", ["", 1, b"/tmp"]),
        ("score_clip", [(1, 1), (1, -1), (1,), (0, 1, 2), [0, 1], (0, math.nan), (0, math.inf), (False, 1), (0, 1e39)]),
        ("score_clip", [(1.0, 1.0 + 1e-9), "ab", 5]),
        ("score_scale", [0, math.nan, math.inf, True, None, "1", 1e39, 1e-50, 10**400]),
    ],
)
def test_a_field_out_of_its_range_is_named(config_of: Callable[..., Any], field: str, bad: list[Any]) -> None:
    """Each bad value of a field is refused, and the one fault is about that field."""
    for value in bad:
        (fault,) = _faults(config_of, **{field: value})
        assert fault.startswith((f"{field}: ", "poll_interval_max_s: ")), (value, fault)


@pytest.mark.parametrize(("field", "bad"), [("fps", [*_NUMBERS, 1001]), ("range_tolerance", [-1e-9, 1.1, math.nan])])
def test_a_field_of_videos_out_of_its_range_is_named(
    video_config: Callable[..., VideoRewardConfig], field: str, bad: list[Any]
) -> None:
    """So are the fields that only videos have."""
    for value in bad:
        (fault,) = _faults(video_config, **{field: value})
        assert fault.startswith(f"{field}: "), (value, fault)


def test_every_fault_is_named_at_once(video_config: Callable[..., VideoRewardConfig]) -> None:
    """Four bad fields make four lines."""
    faults = _faults(video_config, fps=0, reward="", score_scale=0, enqueue_url="h")
    assert sorted(fault.partition(":")[0] for fault in faults if "path" not in fault) == [
        "enqueue_url",
        "fps",
        "reward",
        "score_scale",
    ]


def test_the_fields_of_the_other_kind_are_not_taken(image_config: Callable[..., ImageRewardConfig]) -> None:
    """An image has neither a frame rate nor a tolerance."""
    for name in ("fps", "range_tolerance"):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
            image_config(**{name: 1})


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("https://user:pw-SECRET@h/enqueue", "it holds a user or a password; name a variable in credential"),
        ("https://h/enqueue?token=pw-SECRET", "it has a query or a fragment; the protocol uses neither"),
        ("https://h/enqueue#pw-SECRET", "it has a query or a fragment"),
        ("https://h/enqueue?", "it has a query or a fragment"),
        ("ftp://h/pw-SECRET", "expected http:// or https:// with a host"),
        ("file:///pw-SECRET", "expected http:// or https:// with a host"),
        ("h/enqueue", "expected http:// or https:// with a host"),
        ("https:///enqueue", "expected http:// or https:// with a host"),
        ("https://h:0/enqueue", "expected http:// or https:// with a host"),
        ("https://h:99999/enqueue", "it is no URL"),
        ("https://[::1/enqueue", "it is no URL"),
        ("https://h", "its path has to end in the endpoint's name"),
        ("https://h/api/reward/enqueue/", "its path has to end in the endpoint's name"),
        ("https://h/en queue", "expected a URL of visible ASCII characters"),
        ("https://h/enqueue\n", "expected a URL of visible ASCII characters"),
        ("https://h/\x00", "expected a URL of visible ASCII characters"),
        ("https://hé/enqueue", "expected a URL of visible ASCII characters"),
        ('https://h/"', "it holds one of"),
        ("https://h/{a,b}", "it holds one of"),
        (None, "expected a URL, got None"),
    ],
)
def test_a_url_is_plain_and_holds_no_secret(config_of: Callable[..., Any], url: Any, fault: str) -> None:
    """What is no plain endpoint is refused, without showing what may be a secret in it."""
    for field in ("enqueue_url", "pull_url"):
        faults = _faults(config_of, **{field: url})
        assert any(each.startswith(f"{field}: {fault}") for each in faults), faults
        assert "pw-SECRET" not in "".join(faults)


@pytest.mark.parametrize("url", ["http://h/e", "https://h:8443/a/b.c", "http://[::1]:80/e", "http://127.0.0.1:1/e"])
def test_a_plain_endpoint_is_taken(config_of: Callable[..., Any], url: str) -> None:
    """Hosts by name, by address, with a port."""
    assert config_of(enqueue_url=url).enqueue_url == url


def test_a_token_in_place_of_a_name_is_not_shown(config_of: Callable[..., Any]) -> None:
    """Whoever puts the token itself there by mistake does not find it in the log."""
    (fault,) = _faults(config_of, credential="tok-TEST-111")
    assert "tok-TEST-111" not in fault


def test_the_token_is_read_where_it_is_needed(config_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The config holds the name alone; the value comes from the environment of the process that asks."""
    config = config_of(credential="SOME_TOKEN")
    monkeypatch.setenv("SOME_TOKEN", "tok-TEST-111")
    assert config.token() == "tok-TEST-111"
    assert config.token({"SOME_TOKEN": "other"}) == "other"
    assert "tok-TEST-111" not in repr(config)
    assert "tok-TEST-111" not in repr(config.semantic_identity())
    assert b"tok-TEST-111" not in pickle.dumps(config)
    assert config_of(credential=None).token() is None


@pytest.mark.parametrize("value", [None, "", "tok-TEST-111\n", "tok-TEST 111", "tok-TEST-111\r\nX: 1", "tök-TEST-111"])
def test_a_token_that_can_not_be_sent_is_named_by_its_variable(
    config_of: Callable[..., Any], value: str | None
) -> None:
    """A variable that is not set, empty, or that would break the header is refused; its value is not shown."""
    with pytest.raises(RewardConfigError, match="SOME_TOKEN") as caught:
        config_of(credential="SOME_TOKEN").token({} if value is None else {"SOME_TOKEN": value})
    assert "TEST" not in str(caught.value)
