# SPDX-License-Identifier: Apache-2.0
"""A row of a source after column mapping, and what every source of rows offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, final

import msgspec
from msgspec import UNSET

from posttrain.data.columns import ColumnMapping
from posttrain.data.gaps import Gaps

__all__ = ["RowSource", "SourceRow"]


@final
class SourceRow(msgspec.Struct):
    """One row under the canonical names; `msgspec.UNSET` stands for a column that the row does not have.

    The values are fresh objects: nobody else holds them.
    """

    prompt: Any = UNSET
    reference: Any = UNSET
    row_id: Any = UNSET
    """Value of the id column, UNSET where the mapping has none."""
    representations: dict[str, Any] = {}
    """The row's unmapped columns, where the source preserves them."""


class RowSource(Protocol):
    """A finite table of rows with random access, in an order that never changes."""

    @property
    def columns(self) -> ColumnMapping:
        """How the source's columns are mapped."""
        ...

    @property
    def column_names(self) -> Sequence[str]:
        """Names of the columns that there are, for errors."""
        ...

    @property
    def gaps(self) -> Mapping[str, Gaps]:
        """For ``prompt`` and ``reference``, the rows that are known to lack it. A source need not know all."""
        ...

    @property
    def fingerprint(self) -> str:
        """Tells one state of the data from another, for a run's record."""
        ...

    @property
    def title(self) -> str:
        """What to call the source in an error."""
        ...

    def __len__(self) -> int:
        """How many rows there are."""
        ...

    def take(self, indices: Sequence[int]) -> list[SourceRow]:
        """The rows at these places, each counted from 0.

        Raises:
            RewardContractError: the source has changed since it was opened, or a row can't be made.
        """
        ...

    def place(self, index: int) -> str:
        """What to call a row in an error."""
        ...
