# SPDX-License-Identifier: Apache-2.0
"""What the benchmark hands to every path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

Lap: TypeAlias = float
"""Seconds of one timed run over all groups."""

Timed: TypeAlias = Callable[[], Lap]

Rule: TypeAlias = Callable[[str, str], float]
"""(completion, reference) to reward."""


@dataclass(frozen=True, slots=True)
class Group:
    """All completions of one prompt."""

    group_id: str
    prompt: str
    reference: str
    completions: list[str]
