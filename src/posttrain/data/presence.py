# SPDX-License-Identifier: Apache-2.0
"""What a row has to have for a provider: presence and JSON, never what is inside."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import UNSET

from posttrain.data.columns import ColumnMapping, missing_column
from posttrain.data.row import SourceRow
from posttrain.data.row_ids import content_id, id_fault, id_text
from posttrain.errors import RewardContractError, text_of
from posttrain.frozen import freeze

__all__ = ["INPUTS", "input_fault", "row_faults", "row_id_of"]

INPUTS = ("prompt", "reference")
"""The canonical inputs that a provider may declare."""


def input_fault(
    row: SourceRow, role: str, columns: ColumnMapping, present: Sequence[str], *, declared: bool
) -> str | None:
    """What is wrong with a row's prompt or reference, in words; None when it can be used.

    Args:
        row: the row.
        role: ``prompt`` or ``reference``.
        columns: how the row was mapped.
        present: the columns that other rows have.
        declared: whether a provider reads it; then it has to be a JSON value, by the rules of
            `posttrain.frozen.freeze`.
    """
    name, value = columns.roles()[role], row.prompt if role == "prompt" else row.reference
    if value is UNSET and name not in present:
        return missing_column(columns, role, present)
    if value is UNSET or value is None:
        what = f"has no column {name!r}" if value is UNSET else f"column {name!r} is null"
        who = "the provider needs a reference" if role == "reference" else "there is nothing to roll out"
        return f"{what}: {who}; write one, or leave the row out"
    if declared:
        try:
            freeze(value, name)
        except RewardContractError as error:
            first, *places = error.message.split("\n")
            return f"column {name!r} is {first} {'; '.join(place.strip() for place in places)}"
    return None


def row_faults(row: SourceRow, needs: Collection[str], columns: ColumnMapping, present: Sequence[str]) -> list[str]:
    """Everything that keeps a row from being used. Its prompt has to be there whether a provider reads it or not."""
    found = [
        input_fault(row, role, columns, present, declared=role in needs)
        for role in INPUTS
        if role == "prompt" or role in needs
    ]
    return [fault for fault in found if fault is not None]


def row_id_of(row: SourceRow, columns: ColumnMapping) -> str:
    """The row's stable id: the text of its id column, or a digest of prompt and reference.

    Raises:
        RewardContractError: it has none.
    """
    if columns.row_id_column is not None:
        found = id_text(row.row_id)
        if found is None:
            raise RewardContractError(id_fault(columns.row_id_column, row.row_id))
        return found
    prompt, reference = (None if value is UNSET else value for value in (row.prompt, row.reference))
    try:
        return content_id(prompt, reference)
    except (TypeError, ValueError, RecursionError) as error:
        raise RewardContractError(
            f"no id can be made of its prompt and reference: {text_of(error)}; name an id column with "
            "rl.data.row_id_column"
        ) from error
