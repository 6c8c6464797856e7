# SPDX-License-Identifier: Apache-2.0
"""TRL's table of completions, with the stage's numbers in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

__all__ = ["fill_table"]

_REWARD: Final = "final"
"""The one column of rewards that TRL fills itself."""
_EMPTY: Final = float("nan")
"""Shown where there is no number. TRL formats every cell as a float, so None would end the run."""


def fill_table(
    logs: Mapping[str, Any], advantages: Sequence[float | None], columns: Mapping[str, Sequence[float | None]]
) -> None:
    """Put a batch's numbers into its rows, the last ones of the table.

    Every column keeps the height of the table: training and evaluation may have other terms.

    Args:
        logs: the trainer's, in which TRL has put the batch already.
        advantages: one for each row of the batch; None: the row has none, its group was dropped.
        columns: column to its values, ``final`` and one for each term, in the same order.
    """
    count = len(advantages)
    _drop_last(logs["advantages"], count)
    logs["advantages"].extend(_shown(advantages))
    height, rewards = len(logs["advantages"]), logs["rewards"]
    _drop_last(rewards[_REWARD], count)
    for name in dict.fromkeys([*rewards, *columns]):
        column = rewards[name]
        column.extend(_shown(columns.get(name, [None] * count)))
        column.extendleft([_EMPTY] * (height - len(column)))


def _shown(values: Sequence[float | None]) -> list[float]:
    return [_EMPTY if each is None else each for each in values]


def _drop_last(column: Any, count: int) -> None:
    for _ in range(min(count, len(column))):
        column.pop()
