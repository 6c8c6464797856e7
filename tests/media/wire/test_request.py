# SPDX-License-Identifier: Apache-2.0
"""What is sent: the line in front of the array, and the form of a pull."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl

import pytest

from posttrain.errors import RewardContractError
from posttrain.media.wire import enqueue_line, pull_form


def test_a_video_line_carries_type_reward_and_frame_rate() -> None:
    """A video names its media type and its frames per second, under the key that the service's reward reads."""
    line = enqueue_line(media_type="video", reward="dance_grpo", fps=16)
    assert line == b'{"media_type": "video", "reward_fn": {"dance_grpo": 1.0}, "video_infos": [{"video_fps": 16.0}]}\n'


def test_an_image_line_has_no_video_infos() -> None:
    """An image names its media type and omits `video_infos`; a prompt goes along when there is one."""
    assert enqueue_line(media_type="image", reward="ocr") == b'{"media_type": "image", "reward_fn": {"ocr": 1.0}}\n'
    line = enqueue_line(media_type="image", reward="ocr", prompts=["a fox"])
    assert line == b'{"media_type": "image", "prompts": ["a fox"], "reward_fn": {"ocr": 1.0}}\n'


@pytest.mark.parametrize("prompt", ["two\nlines\r\n", "\u2028 \u0085", 'quote " and \\', "日本語 🦊", ""])
def test_a_line_is_one_line_whatever_the_prompt(prompt: str) -> None:
    """The service splits at the first LF: there is exactly one, at the end, and the prompt comes back unchanged."""
    line = enqueue_line(media_type="image", reward="ocr", prompts=[prompt])
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert json.loads(line.decode("utf-8"))["prompts"] == [prompt]


@pytest.mark.parametrize(
    ("prompts", "items", "message"),
    [
        (["a"], 4, "prompts: expected a list of 4, one for each item sent, got 1"),
        (["a", "b"], 1, "expected a list of 1, one for each item sent, got 2"),
        ([], 1, "expected a list of 1, one for each item sent, got 0"),
        ("a", 1, "got one text"),
        ([None], 1, r"prompts\[0\]: expected a text, got None"),
        (["\ud800"], 1, "lone surrogate"),
        (["a" * 900_000], 1, "shorten the prompt"),
    ],
)
def test_prompts_that_do_not_fit_the_items_are_refused(prompts: Any, items: int, message: str) -> None:
    """Case service-04: the count of prompts is checked before anything is sent, and so is what they are made of."""
    with pytest.raises(RewardContractError, match=message):
        enqueue_line(media_type="image", reward="image_reward", prompts=prompts, items=items)


@pytest.mark.parametrize("fps", [None, 0, -1.0, float("nan"), float("inf"), True, "16"])
def test_a_video_without_a_frame_rate_is_refused(fps: Any) -> None:
    """The service answers -1.0 with status 200 to a video whose frame rate it can't find, so we never send one."""
    with pytest.raises(RewardContractError, match="fps: a video is sent with its frames per second"):
        enqueue_line(media_type="video", reward="dance_grpo", fps=fps)


def test_an_image_with_a_frame_rate_is_refused() -> None:
    """A frame rate of an image is a mix-up."""
    with pytest.raises(RewardContractError, match="an image has no frame rate"):
        enqueue_line(media_type="image", reward="ocr", fps=16)


@pytest.mark.parametrize("uuid", ["5db04701-3c50-42a7-956c-c1a8c60afa60", "../x y", "a&type=b=c%", "日本"])
def test_a_pull_is_a_form_of_uuid_and_type(uuid: str) -> None:
    """Any uuid comes back exactly from the urlencoded form, and can't add a field."""
    assert parse_qsl(pull_form(uuid, "dance_grpo").decode("ascii"), strict_parsing=True) == [
        ("uuid", uuid),
        ("type", "dance_grpo"),
    ]
