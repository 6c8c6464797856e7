# SPDX-License-Identifier: Apache-2.0
"""Which column of a source is the prompt, which the reference and which the row's id."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, final

from posttrain.errors import RewardConfigError, describe, listing

__all__ = ["CONFIG_KEYS", "ColumnMapping", "missing_column", "shown_name"]

CONFIG_KEYS: Final = {
    "prompt": "rl.data.prompt_column",
    "reference": "rl.data.response_column",
    "row_id": "rl.data.row_id_column",
}
"""Canonical field to the config key that names its column."""

_FIELDS: Final = {"prompt": "prompt_column", "reference": "response_column", "row_id": "row_id_column"}
_REFERENCE: Final = "reference"
_NAMED = 12


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMapping:
    """Maps the customer's column names onto the canonical vocabulary.

    Raises:
        RewardConfigError: naming every field that is no column's name, and every column that stands for two fields.
    """

    prompt_column: str = "prompt"
    """Becomes the canonical prompt; every row has one."""
    response_column: str | None = None
    """Becomes the opaque reference. None and ``reference`` stand for the column of that name, in rows that have it; a
    column of any other name has to be there."""
    row_id_column: str | None = None
    """Holds each row's stable id, a text or an int. None: the id is a digest of prompt and reference."""

    def __post_init__(self) -> None:
        """Refuse what is no mapping, all faults at once."""
        faults = []
        for role, field in _FIELDS.items():
            name = getattr(self, field)
            is_default = name is None and role != "prompt"
            if not is_default and (not isinstance(name, str) or not name):
                faults.append(f"{CONFIG_KEYS[role]}: expected a column's name, got {describe(name)}")
        if not faults:
            roles: dict[str, list[str]] = {}
            for role, name in self.roles().items():
                roles.setdefault(name, []).append(role)
            for name, sharing in roles.items():
                if len(sharing) > 1:
                    keys = " and ".join(CONFIG_KEYS[role] for role in sharing)
                    faults.append(f"column {name!r} stands for {' and '.join(sharing)}: give {keys} a column each")
        if faults:
            raise RewardConfigError(f"the columns of the data are not valid:\n{listing(faults)}")

    def roles(self) -> dict[str, str]:
        """Canonical field (``prompt``, ``reference`` and, if there is such a column, ``row_id``) to column."""
        roles = {"prompt": self.prompt_column, "reference": self.response_column or _REFERENCE}
        if self.row_id_column is not None:
            roles["row_id"] = self.row_id_column
        return roles

    def required(self) -> tuple[str, ...]:
        """The fields whose column a source has to have: it is the prompt's, or was asked for by name."""
        roles = self.roles()
        return tuple(role for role in roles if role != "reference" or roles[role] != _REFERENCE)


def missing_column(columns: ColumnMapping, role: str, present: Iterable[str]) -> str:
    """An error's words for a column that is not there: what there is, the nearest name, and the key to set.

    Args:
        columns: the mapping.
        role: the canonical field whose column is missing.
        present: names of the columns that are there.
    """
    name, names = columns.roles()[role], list(present)
    shown = ", ".join(shown_name(each) for each in names[:_NAMED]) or "no column at all"
    if len(names) > _NAMED:
        shown += f" and {len(names) - _NAMED} more"
    near = difflib.get_close_matches(name, names, n=1)
    meant = f"; did you mean {shown_name(near[0])}?" if near else ";"
    return f"no column {name!r} for the {role}: there is {shown}{meant} set {CONFIG_KEYS[role]}"


def shown_name(name: str) -> str:
    """A column's name in quotes, cut where it is absurdly long."""
    return repr(name if len(name) <= 60 else f"{name[:57]}...")
