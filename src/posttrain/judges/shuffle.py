# SPDX-License-Identifier: Apache-2.0
"""A shuffle that a text decides: the same on every machine, Python and run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from posttrain.judges.rendering import digest

__all__ = ["shuffled"]

T = TypeVar("T")


def shuffled(items: Iterable[T], seed: str) -> list[T]:
    """The items in the order of a hash of the seed and their place."""
    keyed = [(digest("shuffle", seed, str(at)), item) for at, item in enumerate(items)]
    return [item for _, item in sorted(keyed, key=lambda pair: pair[0])]
