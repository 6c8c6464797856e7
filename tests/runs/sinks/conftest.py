# SPDX-License-Identifier: Apache-2.0
"""A sink that remembers, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import pytest

import posttrain.runs.sinks
from interrupting import interrupt_at


class Remembering:
    """Remembers what it is given in a list that several may share; fails when it is told to."""

    def __init__(self, name: str, seen: list[tuple[object, ...]], error: BaseException | None) -> None:
        self._name = name
        self._seen = seen
        self._error = error

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Remember the metrics."""
        self._seen.append((self._name, step, dict(metrics)))
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Remember that it was closed."""
        self._seen.append((self._name, "closed"))
        if self._error is not None:
            raise self._error


@pytest.fixture
def remembering() -> Callable[..., Remembering]:
    """`remembering("a", seen)` is a sink that appends to `seen` what it is asked to do; with an error, it raises it."""

    def make(name: str, seen: list[tuple[object, ...]], error: BaseException | None = None) -> Remembering:
        return Remembering(name, seen, error)

    return make


@pytest.fixture
def interrupted() -> Callable[[Callable[[], object], int], bool]:
    """Does some work with a KeyboardInterrupt before the n-th line that the sinks run; says whether it came."""
    return partial(interrupt_at, posttrain.runs.sinks)
