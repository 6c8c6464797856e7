# SPDX-License-Identifier: Apache-2.0
"""The line of JSON in front of an enqueued array, checked against the array and against what is served."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, final

import msgspec

from posttrain.errors import describe
from posttrain.service.protocol.refusal import Refusal
from posttrain.service.protocol.strict_json import NotStrictJsonError, strict_json
from posttrain.service.scorers.spec import ScorerSpec

__all__ = ["RequestLine", "parse_line"]

_LAYOUT: Final = {"image": "[B, H, W, 3]", "video": "[B, 3, T, H, W]"}
_LARGEST_SIDE: Final = 1 << 16


@final
class RequestLine(msgspec.Struct, frozen=True, kw_only=True):
    """What one enqueue asks for, checked."""

    media_type: str
    """``image`` or ``video``."""
    rewards: tuple[str, ...]
    """Names of the scorers, in the order of the request, at least one."""
    prompts: tuple[str, ...] | None
    """[B]; None: none were given."""
    video_fps: tuple[float, ...] | None
    """[B], frames per second, above 0; None for images."""
    video_infos: list[dict[str, Any]] | None
    """As they came, for the echo."""
    input_info: dict[str, Any]
    """Whatever the client wants echoed."""


def parse_line(
    line: bytes, shape: tuple[int, ...], scorers: Mapping[str, ScorerSpec], *, max_samples: int
) -> RequestLine:
    """The request, checked against the shape of its array; every fault is named at once.

    Raises:
        Refusal: 400 when the line is no JSON object, 422 when it asks for something that can't be done.
    """
    try:
        fields = strict_json(line)
    except NotStrictJsonError as error:
        raise Refusal(400, f"the first line is {error}") from error
    if not isinstance(fields, dict):
        raise Refusal(400, f"the first line is no JSON object but {describe(fields)}")
    media_type = str(fields.get("media_type")).lower()
    faults = list(_faults(fields, media_type, shape, scorers, max_samples))
    if faults:
        raise Refusal(422, "; ".join(faults))
    prompts, infos = fields.get("prompts"), fields.get("video_infos") or []
    video = media_type == "video"
    return RequestLine(
        media_type=media_type,
        rewards=tuple(fields["reward_fn"]),
        prompts=None if prompts is None else tuple(prompts),
        video_fps=tuple(float(info["video_fps"]) for info in infos) if video else None,
        video_infos=infos if video else None,
        input_info=fields.get("input_info") or {},
    )


def _faults(
    fields: dict[str, Any],
    media_type: str,
    shape: tuple[int, ...],
    scorers: Mapping[str, ScorerSpec],
    max_samples: int,
) -> Iterator[str]:
    if media_type not in _LAYOUT:
        yield f"media_type: expected 'image' or 'video', got {describe(fields.get('media_type'))}"
    else:
        yield from _shape_faults(media_type, shape, max_samples)
    yield from _reward_faults(fields.get("reward_fn"), media_type, fields.get("prompts"), scorers)
    samples = shape[0] if shape else 0
    if (prompts := fields.get("prompts")) is not None:
        if not isinstance(prompts, list) or not all(isinstance(each, str) for each in prompts):
            yield f"prompts: expected a list of strings, got {describe(prompts)}"
        else:
            if len(prompts) != samples:
                yield f"prompts ({len(prompts)}) must match batch ({samples})"
            if lone := [at for at, each in enumerate(prompts) if not _is_text(each)]:
                yield f"prompts[{lone[0]}]: it holds a lone surrogate, which no UTF-8 can carry"
    if media_type == "video":
        yield from _video_faults(fields.get("video_infos"), samples)
    if not isinstance(fields.get("input_info") or {}, dict):
        yield f"input_info: expected an object, got {describe(fields['input_info'])}"


def _shape_faults(media_type: str, shape: tuple[int, ...], max_samples: int) -> Iterator[str]:
    channels = 3 if media_type == "image" else 1
    rank = 4 if media_type == "image" else 5
    if len(shape) != rank or shape[channels] != 3 or 0 in shape:
        yield f"the array's shape is {list(shape)}: expected {_LAYOUT[media_type]} for media_type '{media_type}'"
    elif shape[0] > max_samples:
        yield f"the array holds {shape[0]} samples: at most {max_samples} are taken at once"
    elif max(shape) > _LARGEST_SIDE:
        yield f"the array's shape is {list(shape)}: no side may be longer than {_LARGEST_SIDE}"


def _reward_faults(
    rewards: object, media_type: str, prompts: object, scorers: Mapping[str, ScorerSpec]
) -> Iterator[str]:
    if not isinstance(rewards, dict) or not rewards:
        yield f'reward_fn: expected an object such as {{"brightness": 1.0}}, got {describe(rewards)}'
        return
    for name, weight in rewards.items():
        # A comparison takes an int of any size, and is false of NaN; the line holds no infinity.
        if type(weight) not in {int, float} or not weight > 0:
            yield f"reward_fn[{name[:80]!r}]: expected a weight above 0, got {describe(weight)}"
        spec = scorers.get(name)
        if spec is None:
            yield f"no reward is named {name[:80]!r}; known: {', '.join(sorted(scorers))}"
        elif media_type in _LAYOUT and spec.media_type != media_type:
            yield f"reward {name!r} scores {spec.media_type}s, media_type is {media_type!r}"
        elif spec.needs_prompts and prompts is None:
            yield f"reward {name!r} needs prompts"


def _is_text(value: str) -> bool:
    """Whether its process can be sent `value`."""
    return not any("\ud800" <= each <= "\udfff" for each in value)


def _video_faults(infos: object, samples: int) -> Iterator[str]:
    if not isinstance(infos, list) or not all(isinstance(each, dict) for each in infos):
        yield f'video_infos: expected a list such as [{{"video_fps": 16}}], got {describe(infos)}'
        return
    if len(infos) != samples:
        yield f"video_infos ({len(infos)}) must match batch ({samples})"
    for at, info in enumerate(infos):
        fps = info.get("video_fps")
        if type(fps) not in {int, float} or not 0 < fps < 1e6:
            hint = "; the key is video_fps, not fps" if fps is None and "fps" in info else ""
            yield f"video_infos[{at}].video_fps: expected a number above 0, got {describe(fps)}{hint}"
