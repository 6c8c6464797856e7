# SPDX-License-Identifier: Apache-2.0
"""Prompt and reference of a group, decoded once where its rows repeat them."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Raw

from posttrain.frozen import first_difference, strict_equal
from posttrain.jsonl.faults import Faults
from posttrain.rollouts.assembly import Draft
from posttrain.rollouts.columns import RolloutColumns
from posttrain.rollouts.grouping import Grouping
from posttrain.schema import Observation

__all__ = ["observations"]


def observations(draft: Draft, columns: RolloutColumns, grouping: Grouping, faults: Faults) -> list[Observation]:
    """One observation for each candidate of a group.

    It is one object where all rows have strictly equal inputs, and otherwise one for each row: whether inputs may
    differ is for the reward stage to say, which knows the ones that count. Only where nothing but the rows' order or
    a few columns made them a group, any difference is a fault, since it means that the grouping is wrong.

    Args:
        draft: the group.
        columns: names of the columns, for errors.
        grouping: how the rows became a group.
        faults: where faults are noted; the observations are of no use then.
    """
    prompts = _values(draft, "prompt", columns.prompt, faults)
    references = _values(draft, "reference", columns.reference, faults)
    if not grouping.is_by_group_id:
        for column, values in ((columns.prompt, prompts), (columns.reference, references)):
            _check_equal(draft, column, values, grouping, faults)
    pairs = [
        (None if prompt is UNSET else prompt, None if reference is UNSET else reference)
        for prompt, reference in zip(prompts, references, strict=True)
    ]
    prompt, reference = pairs[0] if pairs else (None, None)
    if all(pair[0] is prompt and pair[1] is reference for pair in pairs):
        return [Observation(id=draft.group_id, prompt=prompt, reference=reference)] * len(draft.candidates)
    return [Observation(id=draft.group_id, prompt=prompt, reference=reference) for prompt, reference in pairs]


def _values(draft: Draft, role: str, column: str, faults: Faults) -> list[Any]:
    """The value in each row, UNSET where the row has none; the same object in all rows that equal the first."""
    values: list[Any] = []
    first_text: Any = None
    first: Any = None
    for number, row in draft.rows:
        text = getattr(row, role)
        if text == first_text:
            values.append(first)
            continue
        value = _decoded(text, number, column, faults)
        if first_text is None:
            first_text, first = text, value
        values.append(first if strict_equal(value, first) else value)
    return values


def _decoded(text: Raw, number: int, column: str, faults: Faults) -> Any:
    if text is UNSET:  # type: ignore[comparison-overlap]  # the columns of a row are UNSET where it has none
        return UNSET
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        faults.add_row(number, f"column {column!r} can't be read: {error}")
        return UNSET


def _check_equal(draft: Draft, column: str, values: list[Any], grouping: Grouping, faults: Faults) -> None:
    present = [(number, value) for (number, _), value in zip(draft.rows, values, strict=True) if value is not UNSET]
    for number, value in present[1:]:
        first_row, first = present[0]
        difference = None if value is first else first_difference(first, value, column)
        if difference is not None:
            faults.add_row(
                number,
                f"its {column!r} is not that of row {first_row}, with which {grouping.describe()} makes it one group: "
                f"{difference}",
            )
