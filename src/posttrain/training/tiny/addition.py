# SPDX-License-Identifier: Apache-2.0
"""Sums of a number below 100 and a digit, as rows with prompt and reference: tasks that are made, not downloaded.

Every sum stands either among the training rows or among the held-out ones, whatever the seed of a run; which, a fixed
shuffle decides. The built-in provider `arithmetic` scores the answers.
"""

from __future__ import annotations

import random
from functools import cache
from typing import Any, Final

__all__ = ["HELD_OUT", "held_out_questions", "held_out_rows", "training_questions", "training_rows"]

_LEFT: Final = 100
_RIGHT: Final = 10
HELD_OUT: Final = 100
"""How many of the 1,000 sums are held out."""


def training_rows() -> list[dict[str, str]]:
    """900 rows: prompt ``"17+5="``, reference ``"22"``."""
    return [_row(*pair) for pair in _shuffled()[HELD_OUT:]]


def held_out_rows() -> list[dict[str, str]]:
    """100 rows of the same form; none is among the training rows."""
    return [_row(*pair) for pair in _shuffled()[:HELD_OUT]]


def training_questions() -> list[dict[str, Any]]:
    """The training rows as questions for a model that was tuned to a chat: a prompt is one message of a user."""
    return [_asked(row) for row in training_rows()]


def held_out_questions() -> list[dict[str, Any]]:
    """The held-out rows in the same form."""
    return [_asked(row) for row in held_out_rows()]


def _asked(row: dict[str, str]) -> dict[str, Any]:
    question = f"What is {row['prompt'].rstrip('=')}? Answer with the number alone."
    return {"prompt": [{"role": "user", "content": question}], "reference": row["reference"]}


@cache
def _shuffled() -> tuple[tuple[int, int], ...]:
    pairs = [(left, right) for left in range(_LEFT) for right in range(_RIGHT)]
    random.Random(0).shuffle(pairs)  # noqa: S311  # a split of rows keeps no secret
    return tuple(pairs)


def _row(left: int, right: int) -> dict[str, str]:
    return {"prompt": f"{left}+{right}=", "reference": str(left + right)}
