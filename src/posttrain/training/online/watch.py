# SPDX-License-Identifier: Apache-2.0
"""Who is told how a run gets on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from posttrain.runs.checks import PreflightReport

__all__ = ["SILENT", "Watch"]


def _nothing(*_: object) -> None:
    return None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Functions that a run calls on the way, in the first process only."""

    checked: Callable[[PreflightReport], None] = _nothing
    """Preflight has ended, well or not."""
    warned: Callable[[str], None] = _nothing
    """Something that a person should know."""
    warmed: Callable[[int, int], None] = _nothing
    """A step of the warm start is done: which, of how many."""
    stepped: Callable[[int, int, float | None], None] = _nothing
    """A training step is done: which, of how many, and the mean final reward that was sampled for it."""
    validated: Callable[[int, float | None], None] = _nothing
    """A held-out validation is complete: at which step, with which mean final reward."""


SILENT: Final = Watch()
