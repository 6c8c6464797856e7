# SPDX-License-Identifier: Apache-2.0
"""A place between two groups of a rollout file, at which a later run may go on."""

from __future__ import annotations

from typing import final

import msgspec

__all__ = ["START", "Position"]


@final
class Position(msgspec.Struct, frozen=True, kw_only=True):
    """The place behind a group. `msgspec.to_builtins` and `msgspec.convert` turn it to JSON and back."""

    offset: int
    """Decompressed bytes before it."""
    row: int
    """Rows before it, blank ones included: the number of the last row, counted from 1."""
    groups: int
    """Groups before it: the ordinal of the next one, counted from 0."""


START = Position(offset=0, row=0, groups=0)
"""The beginning of the file."""
