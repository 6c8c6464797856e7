# SPDX-License-Identifier: Apache-2.0
"""The line in front of an array: what is taken, and how everything that is wrong is named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from posttrain.service.protocol.refusal import Refusal
from posttrain.service.protocol.request_line import RequestLine, parse_line
from posttrain.service.scorers.spec import ScorerSpec, served_scorers
from service.driving import image_line, video_line

SCORERS = served_scorers([ScorerSpec("worded", "image", "m:f", needs_prompts=True)])
IMAGE = (2, 4, 5, 3)
VIDEO = (1, 3, 7, 4, 5)


def parsed(line: Any, shape: tuple[int, ...]) -> RequestLine:
    """Parse one line."""
    text = line if isinstance(line, bytes) else json.dumps(line).encode()
    return parse_line(text, shape, SCORERS, max_samples=4)


def test_an_image_needs_a_kind_and_rewards() -> None:
    """What is not given is None; the order of the rewards is kept; fields that nobody knows are passed over."""
    line = parsed(image_line("contrast", "brightness", uuid="x", sample_id=3), IMAGE)
    assert line == RequestLine(
        media_type="image",
        rewards=("contrast", "brightness"),
        prompts=None,
        video_fps=None,
        video_infos=None,
        input_info={},
    )


def test_a_video_needs_its_rate() -> None:
    """The kind may be in capitals, the rate an int or a float; what else is in video_infos is echoed."""
    line = parsed({**video_line(), "media_type": "VIDEO", "video_infos": [{"video_fps": 16, "fps": 3}]}, VIDEO)
    assert (line.media_type, line.video_fps) == ("video", (16.0,))
    assert line.video_infos == [{"video_fps": 16, "fps": 3}]


def test_an_image_may_come_with_video_infos() -> None:
    """They mean nothing there, as with the public server."""
    assert parsed(image_line(video_infos="?"), IMAGE).video_infos is None


def test_what_the_client_wants_echoed_is_kept() -> None:
    """Any object; null is as if it were not there."""
    assert parsed(image_line(input_info={"a": [1]}), IMAGE).input_info == {"a": [1]}
    assert parsed(image_line(input_info=None, prompts=None), IMAGE).input_info == {}


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"", "the first line is not JSON"),
        (b"{", "the first line is not JSON"),
        (b"[1]", "the first line is no JSON object but"),
        (b'"image"', "the first line is no JSON object but"),
        (b'{"media_type": "image", "media_type": "video"}', "the key 'media_type' stands twice"),
        (b'{"reward_fn": {"a": 1, "a": 1}}', "the key 'a' stands twice"),
        (b'{"a": NaN}', "NaN is no JSON number"),
        (b'{"a": -Infinity}', "-Infinity is no JSON number"),
        (b'{"a": 1e999}', "1e999 is too large"),
        (b'{"a": "\xff"}', r"not UTF-8 \(byte 7\)"),
        (b'{"a": ' + b"[" * 100_000, "nested too deep|not JSON"),
        (b'{"a": ' + b"1" * 5000 + b"}", "not JSON"),
    ],
)
def test_a_line_that_is_no_object_is_refused(line: bytes, text: str) -> None:
    """Status 400, before anything of it is used."""
    with pytest.raises(Refusal, match=text) as caught:
        parsed(line, IMAGE)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("line", "shape", "text"),
    [
        (image_line(media_type=None), IMAGE, "media_type: expected 'image' or 'video', got None"),
        (image_line(media_type="latent"), IMAGE, "media_type: expected 'image' or 'video', got 'latent'"),
        ({"reward_fn": {"brightness": 1}}, IMAGE, "media_type: expected 'image' or 'video', got None"),
        (image_line(), VIDEO, r"shape is \[1, 3, 7, 4, 5\]: expected \[B, H, W, 3\]"),
        (image_line(), (), r"shape is \[\]: expected \[B, H, W, 3\]"),
        (image_line(), (1, 3, 4, 4), "expected"),
        (image_line(), (0, 4, 4, 3), r"shape is \[0, 4, 4, 3\]"),
        (image_line(), (1, 0, 4, 3), r"shape is \[1, 0, 4, 3\]"),
        (image_line(), (5, 4, 4, 3), "holds 5 samples: at most 4"),
        (image_line(), (1, 1 << 17, 1, 3), "no side may be longer than 65536"),
        (video_line(), IMAGE, r"expected \[B, 3, T, H, W\]"),
        (video_line(), (1, 4, 7, 4, 5), r"expected \[B, 3, T, H, W\]"),
        ({"media_type": "image"}, IMAGE, "reward_fn: expected an object such as .*, got None"),
        (image_line(reward_fn=["brightness"]), IMAGE, "reward_fn: expected an object"),
        (image_line(reward_fn={}), IMAGE, "reward_fn: expected an object"),
        (image_line(reward_fn={"brightness": "1"}), IMAGE, r"reward_fn\['brightness'\]: expected a weight above 0"),
        (image_line(reward_fn={"brightness": 0}), IMAGE, r"expected a weight above 0, got 0"),
        (image_line(reward_fn={"brightness": -1.0}), IMAGE, r"expected a weight above 0, got -1.0"),
        (image_line(reward_fn={"brightness": True}), IMAGE, r"expected a weight above 0, got True"),
        (image_line(reward_fn={"brightness": None}), IMAGE, r"expected a weight above 0, got None"),
        (image_line(reward_fn={"brightness": -(10**400)}), IMAGE, r"expected a weight above 0, got an int of"),
        (image_line("ocr"), IMAGE, "no reward is named 'ocr'; known: brightness, colourfulness"),
        (image_line("motion"), IMAGE, "reward 'motion' scores videos, media_type is 'image'"),
        (video_line("brightness"), VIDEO, "reward 'brightness' scores images, media_type is 'video'"),
        (image_line("worded"), IMAGE, "reward 'worded' needs prompts"),
        (image_line(prompts="a fox"), IMAGE, "prompts: expected a list of strings"),
        (image_line(prompts=["a", 1]), IMAGE, "prompts: expected a list of strings"),
        (image_line(prompts=["a"]), IMAGE, r"prompts \(1\) must match batch \(2\)"),
        (image_line(prompts=["a", "b\ud800"]), IMAGE, r"prompts\[1\]: it holds a lone surrogate"),
        (image_line(prompts=[]), IMAGE, r"prompts \(0\) must match batch \(2\)"),
        (video_line(video_infos=None), VIDEO, "video_infos: expected a list such as"),
        (video_line(video_infos={"video_fps": 1}), VIDEO, "video_infos: expected a list such as"),
        (video_line(video_infos=[]), VIDEO, r"video_infos \(0\) must match batch \(1\)"),
        (video_line(video_infos=[{"fps": 16}]), VIDEO, r"video_infos\[0\].video_fps: .* the key is video_fps, not fps"),
        (video_line(video_infos=[{"video_fps": "16"}]), VIDEO, r"video_fps: expected a number above 0, got '16'"),
        (video_line(fps=0), VIDEO, "video_fps: expected a number above 0, got 0"),
        (image_line(input_info=[1]), IMAGE, r"input_info: expected an object, got \[1\]"),
    ],
)
def test_a_request_that_can_not_be_done_is_refused(line: Any, shape: tuple[int, ...], text: str) -> None:
    """Status 422, with what was expected and what came."""
    with pytest.raises(Refusal, match=text) as caught:
        parsed(line, shape)
    assert caught.value.status == 422


def test_a_weight_may_be_any_number_above_zero() -> None:
    """It changes nothing, so not even its size does."""
    for weight in (10**400, 1e308, 5e-324):
        assert parsed(image_line(reward_fn={"brightness": weight}), IMAGE).rewards == ("brightness",)


def test_every_fault_is_named_at_once() -> None:
    """Shape, weight, name and prompts of one request."""
    line = image_line(reward_fn={"ocr": 0}, prompts=["a"])
    with pytest.raises(Refusal, match=r"shape is.*weight above 0.*no reward is named 'ocr'.*prompts \(1\)"):
        parsed(line, (2, 3, 4, 4))
