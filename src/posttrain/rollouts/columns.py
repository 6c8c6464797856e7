# SPDX-License-Identifier: Apache-2.0
"""Which column of a rollout file holds what."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import final

from posttrain.errors import RewardConfigError, describe, listing
from posttrain.jsonl.keys import UNREADABLE, is_readable

__all__ = ["RolloutColumns", "column_flag", "missing_column"]

_NAMED = 12


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutColumns:
    """The name of each column that is read; every other column of a row is ignored.

    Raises:
        RewardConfigError: naming every column that is no name, and every name that stands for two columns.
    """

    group_id: str = "group_id"
    """Shared by the rows of one group; not read where rows are grouped in another way."""
    trajectory_id: str = "trajectory_id"
    """Identity of a candidate, minted where a row has none; a list in a row that holds a whole group."""
    prompt: str = "prompt"
    """Any JSON value."""
    completion: str = "completion"
    """Text of the one candidate of the row."""
    completions: str = "completions"
    """[group_size] texts: the row holds a whole group."""
    reference: str = "reference"
    """Any JSON value."""
    finish_reason: str = "finish_reason"
    """The engine's verbatim verdict, or null; a list in a row that holds a whole group."""
    completion_token_count: str = "completion_token_count"  # noqa: S105  # tokens of a text, no secret
    """Number of tokens, at least 0, or null; a list in a row that holds a whole group."""

    def __post_init__(self) -> None:
        """Refuse names that are empty or stand twice, all at once."""
        faults = []
        roles: dict[str, list[str]] = {}
        for each in fields(self):
            name = getattr(self, each.name)
            if not isinstance(name, str) or not name:
                faults.append(f"{each.name} ({column_flag(each.name)}): expected a column's name, got {describe(name)}")
            elif not is_readable(name):
                faults.append(f"{each.name} ({column_flag(each.name)}): no name can hold {UNREADABLE}, got {name!r}")
            else:
                roles.setdefault(name, []).append(each.name)
        for name, sharing in roles.items():
            if len(sharing) > 1:
                flags = " and ".join(map(column_flag, sharing))
                faults.append(f"{' and '.join(sharing)} are both column {name!r}: give {flags} a column each")
        if faults:
            raise RewardConfigError(f"the columns of the rollouts are not valid:\n{listing(faults)}")


def column_flag(role: str) -> str:
    """The command-line flag that names the column of a field of `RolloutColumns`."""
    return f"--{role.replace('_', '-')}-column"


def missing_column(name: str, present: Iterable[str], fix: str) -> str:
    """An error's words for a column that a row does not have: what it has, the nearest name, and `fix`."""
    names = list(present)
    shown = ", ".join(describe_name(each) for each in names[:_NAMED]) or "no column at all"
    if len(names) > _NAMED:
        shown += f" and {len(names) - _NAMED} more"
    near = difflib.get_close_matches(name, names, n=1)
    meant = f"; did you mean {describe_name(near[0])}?" if near else ";"
    return f"no column {name!r}: the row has {shown}{meant} {fix}"


def describe_name(name: str) -> str:
    """A column's name in quotes, cut where it is absurdly long."""
    return repr(name if len(name) <= 60 else f"{name[:57]}...")
