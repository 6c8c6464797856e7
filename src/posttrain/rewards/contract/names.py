# SPDX-License-Identifier: Apache-2.0
"""Names of providers, terms and diagnostics: each is one validated segment of a metric's path."""

from __future__ import annotations

import re
from collections.abc import Iterable

from posttrain.errors import describe

__all__ = ["RESERVED_NAMES", "name_fault", "name_faults"]

RESERVED_NAMES = frozenset({"final", "sample_count"})
"""Written by the framework itself: the combined reward and the count of scored candidates."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)


def name_fault(kind: str, name: object) -> str | None:
    """What is wrong with `name` as the name of a `kind` ("provider", "term", "diagnostic"); None when nothing is."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return f"{kind} name {describe(name)}: expected letters, digits and any of _ . - after a first letter or digit"
    if name in RESERVED_NAMES:
        return f"{kind} name {name!r} is reserved for the framework: choose another"
    return None


def name_faults(kind: str, names: Iterable[object]) -> list[str]:
    """Every fault of a list of names, repetitions included."""
    faults = []
    seen: set[object] = set()
    for name in names:
        if (fault := name_fault(kind, name)) is not None:
            faults.append(fault)
        elif name in seen:
            faults.append(f"{kind} name {name!r} stands twice")
        else:
            seen.add(name)
    return faults
