# SPDX-License-Identifier: Apache-2.0
"""What is sent: the JSON line in front of the array, and the form of a pull."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import isfinite
from typing import Any, Final, Literal
from urllib.parse import urlencode

from posttrain.errors import RewardContractError, describe

__all__ = ["LONGEST_LINE", "REPLICA_HEADER", "enqueue_line", "pull_form"]

REPLICA_HEADER: Final = "X-Lepton-Replica-Target"
"""Header of a pull that names the replica which holds the result."""

LONGEST_LINE: Final = 900_000
"""Bytes of a line that the public server is known to take. It drops 1 MiB and more without a word."""


def enqueue_line(
    *,
    media_type: Literal["image", "video"],
    reward: str,
    fps: float | None = None,
    prompts: Sequence[str] | None = None,
    items: int = 1,
) -> bytes:
    """The line in front of the `.npy` bytes, its LF included.

    Args:
        media_type: always sent; the public server takes pixels without it for latents.
        reward: the service's name of the reward; its weight is 1.0, since a weight of 0 would drop it.
        fps: frames per second, of a video; goes under `video_fps`, the one key that the public server's reward reads.
        prompts: one for each item, for a reward that reads them.
        items: samples in the array that follows.

    Raises:
        RewardContractError: not one prompt for each item, a prompt that is no text, a video without a usable frame
            rate or an image with one, or a line that the service would drop.
    """
    meta: dict[str, Any] = {"media_type": media_type, "reward_fn": {reward: 1.0}}
    if prompts is not None:
        _check_prompts(prompts, items)
        meta["prompts"] = list(prompts)
    if media_type == "video":
        if isinstance(fps, bool) or not isinstance(fps, (int, float)) or not isfinite(fps) or fps <= 0:
            raise RewardContractError(
                f"fps: a video is sent with its frames per second, above 0; got {describe(fps)}: set it in the config"
            )
        meta["video_infos"] = [{"video_fps": float(fps)}] * items
    elif fps is not None:
        raise RewardContractError(f"fps: an image has no frame rate; got {describe(fps)}: leave it out")
    try:
        line = json.dumps(meta, sort_keys=True, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    except UnicodeEncodeError:
        raise RewardContractError(
            "a prompt or the reward's name holds a lone surrogate, which UTF-8 can't carry: clean the text"
        ) from None
    if len(line) > LONGEST_LINE:
        raise RewardContractError(
            f"the line in front of the sample has {len(line)} bytes, the service takes {LONGEST_LINE}: "
            "shorten the prompt"
        )
    return line


def pull_form(uuid: str, reward: str) -> bytes:
    """The urlencoded body of a pull."""
    return urlencode({"uuid": uuid, "type": reward}).encode("ascii")


def _check_prompts(prompts: Sequence[str], items: int) -> None:
    if isinstance(prompts, str) or len(prompts) != items:
        got = "one text" if isinstance(prompts, str) else len(prompts)
        raise RewardContractError(f"prompts: expected a list of {items}, one for each item sent, got {got}")
    for place, prompt in enumerate(prompts):
        if not isinstance(prompt, str):
            raise RewardContractError(f"prompts[{place}]: expected a text, got {describe(prompt)}")
