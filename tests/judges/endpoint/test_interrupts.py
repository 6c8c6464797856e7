# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C before any line of an ask: it passes through, nothing hangs, and the endpoint goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest

import posttrain.judges.endpoint
from interrupting import interrupt_at
from posttrain.judges.endpoint import JudgeCall, JudgeEndpoint

Opened: TypeAlias = Callable[..., JudgeEndpoint]
Calls: TypeAlias = Callable[..., list[JudgeCall[float]]]


@pytest.mark.parametrize("recorded", [False, True])
def test_an_interrupt_before_any_line(opened: Opened, calls: Calls, tmp_path: Path, recorded: bool) -> None:
    """Every line that the asking thread runs is tried; after each the next ask is answered in full."""
    cache = str(tmp_path / "answers.sqlite") if recorded else None
    endpoint = opened(cache=cache)
    line = 1
    while interrupt_at(posttrain.judges.endpoint, partial(endpoint.ask, calls(2, sample=line)), line):
        assert [each.value for each in endpoint.ask(calls(2, sample=line))] == [0.5, 0.5]
        line += 1
    assert line > 40
    endpoint.close()
    assert [each.name for each in threading.enumerate() if each.name.startswith("posttrain")] == []
