# SPDX-License-Identifier: Apache-2.0
"""`posttrain compare`: what two scorings of the same rollouts differ in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer
from rich.table import Table

from posttrain.cli.console import plain_console
from posttrain.cli.options import flag
from posttrain.cli.text_options import TextOptions
from posttrain.errors import RewardConfigError
from posttrain.report import open_scores
from posttrain.report.compare import Comparison, TermChange, compare_scores, write_comparison

__all__ = ["CompareOptions", "compare"]

_NONE: Final = "–"
_IN_PAGE: Final = 200
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, kw_only=True)
class _Comparing:
    a: Annotated[Path, typer.Argument(metavar="A", help="A run's directory or a scored file, to compare with.")]
    b: Annotated[Path, typer.Argument(metavar="B", help="The other one, of the same rollouts.")]
    out: Annotated[Path | None, flag("--out", "An HTML file with both scorings of the largest changes.")] = None
    json: Annotated[bool, flag("--json", "Print the comparison as JSON.")] = False
    top: Annotated[int, flag("--top", "How many of the groups that changed most to name.", min=0)] = 10


@dataclass(frozen=True, kw_only=True)
class CompareOptions(TextOptions, _Comparing):
    """What the user asked for."""


def compare(options: CompareOptions) -> None:
    """Compare two scorings of the same rollouts: another provider, revision or judge.

    Example: posttrain compare old.jsonl new.jsonl --out compare.html --rollouts rollouts.jsonl
    """
    a, b = open_scores(options.a), open_scores(options.b)
    if options.rollouts is not None and options.out is None:
        raise RewardConfigError("--rollouts gives the texts of the page: give --out too")
    texts = options.texts(a) if options.out is not None else None
    held = max(options.top, _IN_PAGE) if options.out is not None else options.top
    comparison, largest = compare_scores(a, b, top=held, force=options.force)
    if options.out is not None:
        write_comparison(comparison, largest, options.out, sources=(*a.files, *b.files), rollouts=texts)
    told = msgspec.structs.replace(comparison, largest=comparison.largest[: options.top])
    if options.json:
        typer.echo(msgspec.json.format(msgspec.json.encode(told), indent=2).decode())
        return
    console = plain_console()
    for part in _parts(told):
        console.print(part, soft_wrap=isinstance(part, str))
    if options.out is not None:
        console.print(f"written to {options.out}", soft_wrap=True)


def _parts(comparison: Comparison) -> Iterator[Table | str]:
    yield f"A: {_plain(comparison.a)}\nB: {_plain(comparison.b)}"
    if comparison.same_rollouts is None:
        yield "nothing recorded says that both are of the same rollouts; candidates are paired by their ids"
    if comparison.same_rollouts is False:
        yield "the two are of different rollouts; candidates are paired by their ids"
    if comparison.differences:
        table = Table("differs", "A", "B", box=None, pad_edge=False)
        for row in comparison.differences:
            table.add_row(*map(_plain, row))
        yield table
    yield _changes_table(comparison.changes)
    yield _counts_table(comparison)
    if comparison.largest:
        yield _groups_table(comparison)


def _changes_table(changes: list[TermChange]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("", "mean A", "mean B", "change", "changed", "mean size", "largest"):
        table.add_column(column, justify="right" if column else "left", no_wrap=True)
    for each in changes:
        name = each.name if each.kind != "term" else f"  {each.name}"
        only = f" (only in {each.only})" if each.only else ""
        share = _NONE if each.changed is None else f"{each.changed:.1%}"
        numbers = [_number(each.mean_a), _number(each.mean_b), _number(each.change, "+.4g"), share]
        table.add_row(f"{_plain(name)}{only}", *numbers, _number(each.size), _number(each.largest))
    return table


def _counts_table(comparison: Comparison) -> Table:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    groups = comparison.groups
    table.add_row("scored in both", f"{comparison.candidates:,} candidates in {groups:,} groups")
    table.add_row("rank flips", _share(comparison.rank_flips, comparison.ordered_pairs, "pairs that neither side ties"))
    table.add_row("", _share(comparison.groups_with_rank_flips, groups, "groups have one"))
    table.add_row("another best", _share(comparison.another_top, groups, "groups"))
    table.add_row("sign flips", _share(comparison.sign_flips, comparison.annotated, "advantages"))
    for side, count, ids in (
        ("A", comparison.only_a, comparison.only_a_ids),
        ("B", comparison.only_b, comparison.only_b_ids),
    ):
        if count:
            table.add_row(f"only in {side}", f"{count:,} candidates: {_plain(', '.join(ids[:5]))}{', …' * (count > 5)}")
    for side, count in (("A", comparison.not_scored_a), ("B", comparison.not_scored_b)):
        if count:
            table.add_row(f"not scored in {side}", f"{count:,} candidates")
    if comparison.other_texts:
        table.add_row("other texts", f"{comparison.other_texts:,} candidates have another completion in B")
    return table


def _groups_table(comparison: Comparison) -> Table:
    table = Table(box=None, pad_edge=False, title="groups that changed most", title_justify="left")
    table.add_column("group", overflow="fold")
    steps = any(each.step for each in comparison.largest)
    for column in (*(("step",) if steps else ()), "advantage", "reward", "rank flips", "sign flips"):
        table.add_column(column, justify="right")
    for each in comparison.largest:
        step = [str(each.step)] if steps else []
        moved = [_number(each.advantage_change), _number(each.final_change)]
        table.add_row(_plain(each.group_id), *step, *moved, str(each.rank_flips), str(each.sign_flips))
    return table


def _plain(text: str) -> str:
    """Nobody's ids or names may command the terminal."""
    return _CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)


def _number(value: float | None, form: str = ".4g") -> str:
    return _NONE if value is None else f"{value:{form}}"


def _share(part: int, whole: int, of: str) -> str:
    return f"{part:,} of {whole:,} {of}" + (f", {part / whole:.1%}" if whole else "")
