# SPDX-License-Identifier: Apache-2.0
"""What a served scorer is: a name, a kind of media, and a function by its path."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, final

import msgspec

from posttrain.errors import RewardConfigError, describe, listing

__all__ = ["BUILT_IN_SCORERS", "ScorerSpec", "own_scorers", "served_scorers"]

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_PATH: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


@final
class ScorerSpec(msgspec.Struct, frozen=True):
    """One scorer.

    Its function is called with one sample, `function(array, info)`, and returns one finite number, or a dict of them by
    series. `array` is read-only uint8, [H, W, 3] of an image or [3, T, H, W] of a video. `info` is a dict: ``prompt``
    (text or None), ``video_fps`` (number or None), ``index`` and ``samples`` of the batch.
    """

    name: str
    """`reward_fn` of an enqueue, `type` of a pull, and the name of the series where the function returns a number."""
    media_type: str
    """``image`` or ``video``."""
    function: str
    """``package.module:function``."""
    needs_prompts: bool = False
    """Whether an enqueue without prompts is refused."""


_IMAGE: Final = "posttrain.service.scorers.image"
_VIDEO: Final = "posttrain.service.scorers.video"

BUILT_IN_SCORERS: Final[Mapping[str, ScorerSpec]] = MappingProxyType(
    {
        spec.name: spec
        for spec in (
            ScorerSpec("brightness", "image", f"{_IMAGE}:brightness"),
            ScorerSpec("contrast", "image", f"{_IMAGE}:contrast"),
            ScorerSpec("sharpness", "image", f"{_IMAGE}:sharpness"),
            ScorerSpec("colourfulness", "image", f"{_IMAGE}:colourfulness"),
            ScorerSpec("temporal_smoothness", "video", f"{_VIDEO}:temporal_smoothness"),
            ScorerSpec("motion", "video", f"{_VIDEO}:motion"),
        )
    }
)
"""The scorers that are always there."""


def own_scorers(media_type: str, texts: Iterable[str]) -> list[ScorerSpec]:
    """The scorers of texts such as ``sharp=my_package.scorers:sharp``.

    Raises:
        RewardConfigError: naming every text of another form.
    """
    specs, faults = [], []
    for text in texts:
        name, _, path = text.partition("=")
        if _NAME.fullmatch(name) and _PATH.fullmatch(path):
            specs.append(ScorerSpec(name, media_type, path))
        else:
            faults.append(f"expected NAME=package.module:function, got {describe(text)}")
    if faults:
        raise RewardConfigError(f"scorers that can't be read:\n{listing(faults)}")
    return specs


def served_scorers(own: Iterable[ScorerSpec]) -> dict[str, ScorerSpec]:
    """Name to scorer: the built-in ones and `own`, which add names and override none.

    Raises:
        RewardConfigError: naming every name that is taken.
    """
    scorers = dict(BUILT_IN_SCORERS)
    faults = [
        f"{spec.name!r} is taken: choose another name for {spec.function}"
        for spec in own
        if scorers.setdefault(spec.name, spec) is not spec
    ]
    if faults:
        raise RewardConfigError(f"scorers collide:\n{listing(faults)}")
    return scorers
