# SPDX-License-Identifier: Apache-2.0
"""How far the rows have been drawn, so that a later process goes on exactly there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import msgspec

from posttrain.errors import RewardConfigError

__all__ = ["EnvState"]


@final
class EnvState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The place of the next row to be drawn, and what tells that the rows are still the same."""

    epoch: int
    """Passes over all rows that are complete."""
    position: int
    """Rows drawn in this epoch: 0 to `rows` - 1."""
    rows: int
    """How many rows there are."""
    seed: int
    shuffle: bool
    last_row_id: str | None = None
    """Id of the row drawn last; None: none was."""

    def to_json(self) -> dict[str, Any]:
        """The same as plain JSON, for a checkpoint."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> EnvState:
        """Read a checkpoint back.

        Raises:
            RewardConfigError: it is not one.
        """
        try:
            state = msgspec.convert(record, cls)
        except msgspec.ValidationError as error:
            raise RewardConfigError(f"not a saved state of the data: {error}") from error
        if state.epoch < 0 or not 0 <= state.position < state.rows:
            raise RewardConfigError(f"not a saved state of the data: no row is drawn at {state}")
        return state

    def differences(self, saved: EnvState) -> list[str]:
        """One line for each setting in which a saved state is of other data; its place is not compared."""
        return [
            f"rl.data: {name} was {getattr(saved, name)}, now {getattr(self, name)}"
            for name in ("rows", "seed", "shuffle")
            if getattr(saved, name) != getattr(self, name)
        ]
