# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a field of a media config; each function gives every fault that it finds."""

from __future__ import annotations

import math
import re
from typing import Final
from urllib.parse import urlsplit

from posttrain.errors import describe
from posttrain.media.config.fp32 import fp32

__all__ = [
    "clip_faults",
    "count_faults",
    "credential_faults",
    "name_faults",
    "number_faults",
    "score_key_faults",
    "text_faults",
    "url_faults",
]

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_VISIBLE: Final = re.compile(r"[!-~]+", re.ASCII)
_SERVICE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)


def text_faults(field: str, value: object) -> list[str]:
    """`value` has to be a string with something in it."""
    if type(value) is str and value.strip():
        return []
    return [f"{field}: expected a string that is not empty, got {describe(value)}"]


def name_faults(field: str, value: object) -> list[str]:
    """`value` has to be a name that the service may use in a key of its store."""
    if type(value) is str and _SERVICE_NAME.fullmatch(value):
        return []
    return [f"{field}: expected the service's name of a reward (letters, digits, _ . -), got {describe(value)}"]


def score_key_faults(value: object) -> list[str]:
    """`value` has to be series names joined by ``+``."""
    if type(value) is str and all(_SERVICE_NAME.fullmatch(part) for part in value.split("+")):
        return []
    return [f'score_key: expected the name of a series, or several as in "a+b", got {describe(value)}']


def credential_faults(value: object) -> list[str]:
    """`value` has to be the name of an environment variable, or None. It is not shown: it may be the secret itself."""
    if value is None or (type(value) is str and _VARIABLE.fullmatch(value)):
        return []
    hidden = "what was given is not shown, since it may be the token itself"
    return [f"credential: expected the name of an environment variable, or None; {hidden}"]


def url_faults(field: str, value: object) -> list[str]:
    """`value` has to be an http(s) URL with a host and a path that ends in a name, and nothing secret in it."""
    if type(value) is not str:
        return [f"{field}: expected a URL, got {describe(value)}"]
    if not _VISIBLE.fullmatch(value):
        return [f"{field}: expected a URL of visible ASCII characters"]
    try:
        parts = urlsplit(value)
        port_is_sound = parts.port is None or parts.port > 0
    except ValueError:
        return [f"{field}: it is no URL (host or port can't be read)"]
    faults = []
    # A URL may carry a secret in its user, query or fragment, so none of the texts below shows it.
    if "@" in parts.netloc:
        faults.append(f"{field}: it holds a user or a password; name a variable in credential")
    if parts.query or parts.fragment or value[-1] in "?#":
        faults.append(f"{field}: it has a query or a fragment; the protocol uses neither")
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_sound:
        faults.append(f"{field}: expected http:// or https:// with a host")
    if not parts.path or parts.path.endswith("/"):
        faults.append(f"{field}: its path has to end in the endpoint's name, as in /api/reward/enqueue")
    if any(bracket in value for bracket in '{}\\"'):
        faults.append(f"{field}: it holds one of {{ }} \\ and quotes, which are no part of a URL")
    return faults


def number_faults(field: str, value: object, *, low: float, high: float, unit: str, above: bool = True) -> list[str]:
    """`value` has to be a finite int or float in (low, high], or in [low, high] when not `above`."""
    if type(value) in (int, float) and (low < value if above else low <= value) and value <= high:  # type: ignore[operator]  # an int or a float
        return []
    span = f"({low:g}, {high:g}]" if above else f"[{low:g}, {high:g}]"
    return [f"{field}: expected a number in {span}{unit and f' {unit}'}, got {describe(value)}"]


def count_faults(field: str, value: object, *, low: int, high: int, unit: str) -> list[str]:
    """`value` has to be an int in [low, high]."""
    if type(value) is int and low <= value <= high:
        return []
    return [f"{field}: expected an int in [{low}, {high}] {unit}, got {describe(value)}"]


def clip_faults(clip: object, scale: object) -> list[str]:
    """The two halves of the score's transform, each and together."""
    faults = []
    factor = _single(scale)
    if factor is None or factor == 0:
        faults.append(f"score_scale: expected a number that single precision can hold, not 0, got {describe(scale)}")
    if clip is None:
        return faults
    bounds = [_single(each) for each in clip] if type(clip) is tuple else []
    low, high = bounds if len(bounds) == 2 else (None, None)
    if low is None or high is None or not low < high:
        faults.append(
            "score_clip: expected None or (lowest, highest), two numbers that single precision can hold and tell "
            f"apart, got {describe(clip)}"
        )
    elif factor and not all(math.isfinite(fp32(bound * factor)) for bound in (low, high)):
        faults.append("score_clip: its bounds times score_scale are beyond the range of single precision")
    return faults


def _single(value: object) -> float | None:
    if type(value) not in (int, float):
        return None
    try:
        single = fp32(float(value))  # type: ignore[arg-type]  # an int or a float
    except OverflowError:
        return None
    return single if math.isfinite(single) else None
