# SPDX-License-Identifier: Apache-2.0
"""Call one scorer on one spooled array. This is what a worker process runs; the server itself never does.

Only plain values go in and out, so it does not matter how they travel.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any, Final, final

import msgspec

from posttrain.errors import RewardConfigError, describe, text_of

__all__ = ["ScoreCall", "ScoreReply", "load_function", "score_file"]


_LONGEST_ERROR: Final = 4000
"""Characters of an error that are kept: it is held, and sent, with the result."""


@final
class ScoreCall(msgspec.Struct, frozen=True, kw_only=True):
    """One batch for one scorer."""

    path: str
    """The `.npy` file, uint8, [B, ...]."""
    reward: str
    """Name of the scorer: the series of a bare number."""
    prompts: tuple[str, ...] | None = None
    """[B]."""
    video_fps: tuple[float, ...] | None = None
    """[B]."""


@final
class ScoreReply(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it: scores or an error, never both."""

    scores: dict[str, list[float]] | None = None
    """Series to [B] finite numbers, in the order of the batch."""
    error: str | None = None
    """Why there are none."""
    low: int = 0
    """Smallest byte of the array."""
    high: int = 0
    """Largest byte of the array."""
    opened_s: float = 0.0
    """Seconds until the array was open and looked through."""
    seconds: float = 0.0
    """Seconds in the function."""


class _Refused(Exception):  # noqa: N818  # becomes the error text of a reply
    """What the function returned is no score."""


def load_function(path: str) -> Callable[[Any, Mapping[str, Any]], Any]:
    """The function of ``package.module:function``.

    Raises:
        RewardConfigError: it can't be imported, is not there, or can't be called.
    """
    where, _, attribute = path.partition(":")
    try:
        found: Any = importlib.import_module(where)
        for name in attribute.split("."):
            found = getattr(found, name)
    except Exception as error:
        raise RewardConfigError(f"scorer {path!r}: {type(error).__name__}: {text_of(error)}") from error
    if not callable(found):
        raise RewardConfigError(f"scorer {path!r}: expected a function (array, info), got {describe(found)}")
    function: Callable[[Any, Mapping[str, Any]], Any] = found
    return function


def score_file(function: Callable[[Any, Mapping[str, Any]], Any], call: ScoreCall) -> ScoreReply:
    """Score each sample of the array on its own. Whatever goes wrong comes back as an error of the whole batch."""
    import numpy as np

    started = perf_counter()
    array = np.load(call.path, mmap_mode="r", allow_pickle=False)
    low, high = int(array.min()), int(array.max())
    opened = perf_counter() - started
    series: dict[str, list[float]] = {}
    try:
        for at in range(len(array)):
            one = _call(function, array[at], _info(call, at, len(array)), call.reward)
            if at:
                _same_series(set(one), set(series), at)
            for name, value in one.items():
                series.setdefault(name, []).append(value)
    except _Refused as error:
        return ScoreReply(error=_sendable(str(error)), low=low, high=high, opened_s=opened)
    return ScoreReply(scores=series, low=low, high=high, opened_s=opened, seconds=perf_counter() - started - opened)


def _sendable(text: str) -> str:
    """`text` without what UTF-8 can't carry, and not longer than anybody reads."""
    short = text if len(text) <= _LONGEST_ERROR else f"{text[:_LONGEST_ERROR]}..."
    return short.encode(errors="backslashreplace").decode()


def _info(call: ScoreCall, at: int, samples: int) -> dict[str, Any]:
    return {
        "prompt": None if call.prompts is None else call.prompts[at],
        "video_fps": None if call.video_fps is None else call.video_fps[at],
        "index": at,
        "samples": samples,
    }


def _same_series(here: set[str], others: set[str], at: int) -> None:
    if here != others:
        raise _Refused(f"it returned the series {sorted(here)} for sample {at}, {sorted(others)} for those before")


def _call(
    function: Callable[[Any, Mapping[str, Any]], Any], sample: Any, info: dict[str, Any], reward: str
) -> dict[str, float]:
    try:
        value = function(sample, info)
        series = value.items() if isinstance(value, dict) else ((reward, value),)
        numbers = {name: _plain(number) for name, number in series}
    except Exception as error:
        raise _Refused(f"it raised {type(error).__name__}: {text_of(error)} (sample {info['index']})") from error
    if not numbers:
        raise _Refused(f"it returned no series for sample {info['index']}")
    return {_series(name, info): _number(number, name, info) for name, number in numbers.items()}


def _plain(value: Any) -> Any:
    """The number of a numpy scalar or a tensor without axes; everything else as it is."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", None) == 0 else value


def _series(name: object, info: Mapping[str, Any]) -> str:
    if not isinstance(name, str) or not name or not name.isprintable():
        raise _Refused(f"it returned a series that is named {describe(name)} for sample {info['index']}")
    return name


def _number(value: Any, name: object, info: Mapping[str, Any]) -> float:
    where = f"series {name!r} of sample {info['index']}"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _Refused(f"{where}: expected a number, got {describe(value)}")
    try:
        number = float(value)
    except OverflowError as error:
        raise _Refused(f"{where}: {describe(value)} is too large for a float") from error
    if not math.isfinite(number):
        raise _Refused(f"{where}: expected a finite number, got {number}")
    return number
