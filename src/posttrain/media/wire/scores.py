# SPDX-License-Identifier: Apache-2.0
"""The one finite score of our one sample."""

from __future__ import annotations

import math
from typing import Any

from posttrain.errors import RewardContractError, describe
from posttrain.media.wire.quoting import Quoter

__all__ = ["one_score"]


def one_score(scores: Any, score_key: str, quoted: Quoter) -> float:
    """Read the `scores` member of a 200.

    Args:
        scores: a list of one number (one positional score), or an object of series, each a list of one number.
        score_key: the series to take, or several joined by ``+`` to add up. A positional score has no name, so a
            single key takes it and a sum refuses it.
        quoted: quotes what the service said.

    Raises:
        RewardContractError: not exactly one finite number for each series that was asked for.
    """
    names = score_key.split("+")
    if isinstance(scores, list):
        if len(names) > 1:
            raise RewardContractError(
                f"scores: expected the series {score_key!r}, got one list without names {quoted(scores)}: "
                "a sum needs named series; set score_key to what the service answers"
            )
        return _only(scores, "scores", quoted)
    if not isinstance(scores, dict):
        raise RewardContractError(
            f"scores: expected a list of one number or named series of one number each, got {quoted(scores)}"
        )
    if missing := [name for name in names if name not in scores]:
        raise RewardContractError(
            f"scores: no series {', '.join(map(repr, missing))} in the answer, which has {quoted(sorted(scores))}: "
            "set score_key to one of those"
        )
    values = [_only(scores[name], f"scores[{name!r}]", quoted) for name in names]
    try:
        return values[0] if len(values) == 1 else math.fsum(values)
    except OverflowError:
        raise RewardContractError(f"scores: the sum {score_key!r} is beyond the range of a float") from None


def _only(series: Any, path: str, quoted: Quoter) -> float:
    if not isinstance(series, list):
        raise RewardContractError(f"{path}: expected a list of one number, got {quoted(series)}")
    if len(series) != 1:
        raise RewardContractError(
            f"{path}: expected exactly one score for the one sample sent, got {len(series)}: {quoted(series)}"
        )
    value = series[0]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise RewardContractError(f"{path}: expected a finite number, got {quoted(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise RewardContractError(f"{path}: expected a finite number, got {describe(value)}")
    return number
