# SPDX-License-Identifier: Apache-2.0
"""How the rows of a file become groups."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from posttrain.errors import RewardConfigError, describe
from posttrain.jsonl.keys import UNREADABLE, is_readable

__all__ = ["BY_GROUP_ID", "Grouping", "by_columns", "consecutive", "parse_grouping"]

_FLAG = "--group-by"
_CONSECUTIVE = re.compile(r"consecutive(?::(.*))?", re.DOTALL)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """The rule that says where one group ends and the next begins.

    Make one with `BY_GROUP_ID`, `by_columns`, `consecutive` or `parse_grouping`. A group's rows always stand together;
    a row that holds a whole group (a list of completions) is one by itself under every rule. Under a rule other than
    `BY_GROUP_ID`, groups get minted ids, and their prompt and reference have to be strictly equal wherever a row has
    one.
    """

    columns: tuple[str, ...] = ()
    """Contiguous rows with strictly equal values in these columns are a group; empty under the other rules."""
    size: int = 0
    """Each run of so many rows is a group; 0 under the other rules."""

    @property
    def is_by_group_id(self) -> bool:
        """Whether the group id column decides."""
        return not self.columns and not self.size

    def describe(self) -> str:
        """The rule as it is recorded with results: the same text for the same rule, and no other."""
        if self.columns:
            return f"columns:{json.dumps(list(self.columns))}"
        return f"consecutive:{self.size}" if self.size else "group-id"


BY_GROUP_ID = Grouping()
"""Contiguous rows with the same group id are a group: the default."""


def by_columns(columns: Sequence[str]) -> Grouping:
    """Contiguous rows with strictly equal values in all of `columns` are a group.

    Raises:
        RewardConfigError: no column, a name that is empty or can't be read, or one that stands twice.
    """
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise RewardConfigError(f"{_FLAG} takes names of columns, separated by commas, got {describe(names)}")
    if unreadable := [name for name in names if not is_readable(name)]:
        raise RewardConfigError(f"{_FLAG}: no name of a column can hold {UNREADABLE}, got {unreadable[0]!r}")
    if len(set(names)) < len(names):
        raise RewardConfigError(f"{_FLAG}: a column stands twice in {', '.join(names)}")
    return Grouping(columns=names)


def consecutive(size: int) -> Grouping:
    """Each run of `size` rows is a group, at least 1; the file's last run has to be complete.

    Raises:
        RewardConfigError: `size` is not an int of at least 1.
    """
    if type(size) is not int or size < 1:
        raise RewardConfigError(f"{_FLAG} consecutive:N takes a whole number of at least 1, got {describe(size)}")
    return Grouping(size=size)


def parse_grouping(text: str | None) -> Grouping:
    """The rule that the flag's value names: ``COL,…`` or ``consecutive:N``; None, the flag not given: `BY_GROUP_ID`.

    Raises:
        RewardConfigError: the text is neither.
    """
    if text is None:
        return BY_GROUP_ID
    if (run := _CONSECUTIVE.fullmatch(text.strip())) is None:
        return by_columns([name.strip() for name in text.split(",")])
    count = run[1]
    if count is None or not re.fullmatch(r"[0-9]{1,9}", count):
        raise RewardConfigError(
            f"{_FLAG} {text}: write consecutive:N with a whole number of at least 1, for example consecutive:4"
        )
    return consecutive(int(count))
