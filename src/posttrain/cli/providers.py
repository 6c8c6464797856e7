# SPDX-License-Identifier: Apache-2.0
"""`posttrain providers`: what a catalog offers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from rich.table import Table

from posttrain.cli.console import plain_console
from posttrain.cli.importing import importable_from_here
from posttrain.rewards import RewardCatalog, load_catalog
from posttrain.rewards.scorers import BUILT_IN

__all__ = ["ProvidersOptions", "providers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvidersOptions:
    """What the user asked for."""

    catalog: Annotated[
        str | None, typer.Option("--catalog", help="package.module:factory or file.py:factory. (rl.reward_catalog)")
    ] = None


def providers(options: ProvidersOptions) -> None:
    """List the providers of a catalog, with what identifies each."""
    importable_from_here()
    catalog = load_catalog(options.catalog)
    console = plain_console()
    console.print(_table(catalog))
    custom = sum(name not in BUILT_IN for name in catalog)
    source = f"; {custom} of {catalog.path}" if catalog.path else ""
    console.print(f"{len(BUILT_IN)} built-in providers{source}", soft_wrap=True)


def _table(catalog: RewardCatalog) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("provider", "needs", "terms", "diagnostics", "revision", "identity"):
        table.add_column(column, overflow="fold")
    for name, spec in sorted(catalog.items(), key=lambda each: (each[0] in BUILT_IN, each[0])):
        identity = catalog.identity(name).sha256[:12]
        lists = [", ".join(names) or "-" for names in (spec.needs, spec.terms, spec.diagnostics)]
        table.add_row(name, *lists, spec.revision, identity)
    return table
