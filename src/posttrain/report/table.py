# SPDX-License-Identifier: Apache-2.0
"""The table of groups: one line a group in the index, and a compressed block a group with its texts and numbers."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, final

import msgspec

from posttrain.report.collect import GroupNumbers
from posttrain.report.group import ScoredGroup
from posttrain.report.shown import json_bytes, shown, snippet
from posttrain.report.spread import TermRanges, ZeroSpread

__all__ = ["GroupEntry", "entry_of", "group_block", "table_columns"]

_LEVEL: Final = 4


@final
class GroupEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One group of the table."""

    step: int
    group_id: str
    row_id: str | None
    size: int
    low: float | None
    """Smallest final reward; None: dropped, as all of the next are."""
    high: float | None
    mean: float | None
    std: float | None
    """Sample standard deviation of the final rewards."""
    zero: ZeroSpread | None
    truncated: int
    dropped_because: str | None
    text: str
    """The beginning of the prompt."""
    block: bytes
    """Everything else, compressed: what `group_block` gives."""


def entry_of(group: ScoredGroup, numbers: GroupNumbers) -> GroupEntry:
    """What the table keeps of a group."""
    finals = group.finals
    low, high = (min(finals), max(finals)) if finals else (None, None)
    return GroupEntry(
        step=group.step,
        group_id=group.group_id,
        row_id=group.row_id,
        size=len(group.candidates),
        low=low,
        high=high,
        mean=_mean(finals) if finals else None,
        std=numbers.std,
        zero=numbers.zero,
        truncated=numbers.truncated,
        dropped_because=group.dropped_because,
        text=snippet(group.prompt),
        block=group_block(group, numbers.parts),
    )


def _mean(finals: Sequence[float]) -> float:
    # Divided first: the sum of large rewards may overflow.
    size = len(finals)
    return finals[0] if min(finals) == max(finals) else sum(each / size for each in finals)


def group_block(group: ScoredGroup, parts: Mapping[str, Sequence[float]] | None, **more: Any) -> bytes:
    """The texts and the candidates of a group, as compressed JSON; `more` are further keys."""
    candidates = group.candidates
    content = {
        "prompt": shown(group.prompt),
        "reference": shown(group.reference),
        "mixed": any(
            each.prompt != candidates[0].prompt or each.reference != candidates[0].reference for each in candidates
        ),
        "ids": [each.trajectory_id for each in candidates],
        "texts": [each.completion for each in candidates],
        "finish": [each.finish_reason for each in candidates],
        "tokens": [each.completion_token_count for each in candidates],
        "terms": group.terms,
        "final": group.finals or None,
        "advantage": group.advantages,
        "parts": None if parts is None else {term: [_short(each) for each in part] for term, part in parts.items()},
        **more,
    }
    return zlib.compress(json_bytes(content), _LEVEL)


def _short(value: float) -> float:
    # Six digits are enough to look at, and a third of the bytes.
    return float(f"{value:.6g}")


def table_columns(entries: Iterable[GroupEntry], ranges: TermRanges) -> dict[str, list[Any]]:
    """The entries without their blocks, as columns."""
    columns: dict[str, list[Any]] = {
        name: []
        for name in ("step", "id", "row", "size", "low", "high", "mean", "std", "why", "cut", "dropped", "text")
    }
    for each in entries:
        why = None if each.zero is None else ranges.reason(each.zero)
        values = (
            each.step, each.group_id, each.row_id, each.size, each.low, each.high, each.mean, each.std, why,
            each.truncated, each.dropped_because, each.text,
        )  # fmt: skip
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    return columns
