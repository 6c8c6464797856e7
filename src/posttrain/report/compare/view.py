# SPDX-License-Identifier: Apache-2.0
"""A comparison as a page: its numbers, and the groups that changed most with both scorings side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from posttrain.report.compare.changes import TermChange
from posttrain.report.compare.comparison import Comparison, GroupChange
from posttrain.report.compare.pairing import Pair
from posttrain.report.group import ScoredGroup
from posttrain.report.joining import texts_of
from posttrain.report.page import page
from posttrain.report.privacy import mode_of
from posttrain.report.shown import snippet
from posttrain.report.table import group_block
from posttrain.rollouts.atomic import write_atomically
from posttrain.rollouts.source import RolloutSource
from posttrain.runs.records import RecordedCandidate

__all__ = ["write_comparison"]


def write_comparison(
    comparison: Comparison,
    largest: list[tuple[GroupChange, Pair]],
    out: Path,
    *,
    sources: Iterable[Path],
    rollouts: RolloutSource | None = None,
) -> int:
    """Write the page, whole or not at all; its size in bytes.

    Args:
        comparison: the numbers.
        largest: the groups that can be opened.
        out: the file.
        sources: where the scores are: nobody may read the page who may not read them all.
        rollouts: where the texts are, if the scores have none; read once, and only the texts that are shown are held.

    Raises:
        RewardConfigError: a file can't be read or written.
        RewardContractError: rows of the rollouts are at fault, or a candidate is not among them.
    """
    pairs = [_with_text(pair) for _, pair in largest]
    if rollouts is not None:
        texts = texts_of([each.trajectory_id for a, _ in pairs for each in a.candidates], rollouts)
        pairs = [(_replaced(a, texts), b) for a, b in pairs]
    blocks = [group_block(a, None, other=_other(b)) for a, b in pairs]
    data = _data(comparison, [change for change, _ in largest], [a for a, _ in pairs])
    mode = mode_of([*sources, *([] if rollouts is None else [rollouts.path])])
    write_atomically(out, page(f"{data['title']} · Posttrain comparison", data, blocks), mode=mode)
    return out.stat().st_size


def _with_text(pair: Pair) -> tuple[ScoredGroup, ScoredGroup]:
    """A side may have been scored without its texts being recorded."""
    texts = {each.trajectory_id: each for each in pair.b.candidates if each.completion is not None}
    has_texts = any(each.completion is not None for each in pair.a.candidates)
    return (pair.a if has_texts else _replaced(pair.a, texts)), pair.b


def _replaced(group: ScoredGroup, texts: Mapping[str, RecordedCandidate]) -> ScoredGroup:
    def told(each: RecordedCandidate) -> RecordedCandidate:
        found = texts.get(each.trajectory_id)
        if found is None:
            return each
        return msgspec.structs.replace(found, reward=each.reward, advantage=each.advantage, row_id=each.row_id)

    candidates = tuple(told(each) for each in group.candidates)
    return ScoredGroup(step=group.step, group_id=group.group_id, candidates=candidates)


def _other(group: ScoredGroup) -> dict[str, Any]:
    return {"terms": group.terms, "final": group.finals, "advantage": group.advantages}


def _data(comparison: Comparison, groups: list[GroupChange], scored: list[ScoredGroup]) -> dict[str, Any]:
    columns = {
        "step": [each.step for each in groups],
        "id": [each.group_id for each in groups],
        "row": [each.row_id for each in groups],
        "size": [each.candidates for each in groups],
        "change": [each.advantage_change for each in groups],
        "final": [each.final_change for each in groups],
        "flips": [each.rank_flips for each in groups],
        "signs": [each.sign_flips for each in groups],
        "text": [snippet(each.prompt) for each in scored],
    }
    return {
        "kind": "compare",
        "title": f"A: {comparison.a}, B: {comparison.b}",
        "made": [],
        "notes": list(_notes(comparison)),
        "steps": sorted({each.step for each in groups}),
        "differences": comparison.differences,
        "totals": _totals(comparison),
        "changes": [_change(each) for each in comparison.changes],
        "table": {"columns": columns},
    }


def _totals(comparison: Comparison) -> dict[str, int]:
    return {
        "groups": comparison.groups,
        "candidates": comparison.candidates,
        "flips": comparison.rank_flips,
        "ordered": comparison.ordered_pairs,
        "tops": comparison.another_top,
        "signs": comparison.sign_flips,
        "annotated": comparison.annotated,
        "onlyA": comparison.only_a,
        "onlyB": comparison.only_b,
        "notScoredA": comparison.not_scored_a,
        "notScoredB": comparison.not_scored_b,
    }


def _change(change: TermChange) -> dict[str, Any]:
    return {
        "kind": change.kind,
        "name": change.name,
        "only": change.only,
        "meanA": change.mean_a,
        "meanB": change.mean_b,
        "change": change.change,
        "changed": change.changed,
        "size": change.size,
        "largest": change.largest,
    }


def _notes(comparison: Comparison) -> Iterator[str]:
    if comparison.same_rollouts is None:
        yield "Nothing recorded says that both were made from the same rollouts; candidates are paired by their ids."
    if comparison.same_rollouts is False:
        yield "The two were made from different rollouts; candidates are paired by their ids."
    if comparison.other_texts:
        yield f"{comparison.other_texts:,} candidates have another completion in B; those of A are shown."
    for side, count, ids in (
        ("A", comparison.only_a, comparison.only_a_ids),
        ("B", comparison.only_b, comparison.only_b_ids),
    ):
        if count:
            yield f"{count:,} candidates are only in {side}: {', '.join(ids)}{', …' if count > len(ids) else ''}"
