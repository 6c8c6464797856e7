# SPDX-License-Identifier: Apache-2.0
"""A sink that remembers, for the tests of this folder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import posttrain.runs.sinks


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
    package = str(Path(posttrain.runs.sinks.__file__).parent)

    def run(work: Callable[[], object], at: int) -> bool:
        left = at

        def trace(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal left
            if not frame.f_code.co_filename.startswith(package):
                return None
            if event == "line":
                left -= 1
                if left == 0:
                    raise KeyboardInterrupt
            return trace

        old = sys.gettrace()
        sys.settrace(trace)
        try:
            work()
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(old)
        return False

    return run
