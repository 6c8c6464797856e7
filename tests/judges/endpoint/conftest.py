# SPDX-License-Identifier: Apache-2.0
"""A fake server, and endpoints that ask it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, TypeAlias

import pytest

from posttrain.judges.config import JudgeConfig
from posttrain.judges.endpoint import JudgeCall, JudgeEndpoint, JudgeReplyError
from posttrain.testing import FakeJudgeServer

Opened: TypeAlias = Callable[..., JudgeEndpoint]
Calls: TypeAlias = Callable[..., list[JudgeCall[float]]]


def parse_score(text: str) -> float:
    """The number under ``score``; anything else is no answer."""
    try:
        score = json.loads(text)["score"]
    except (ValueError, KeyError, TypeError) as error:
        raise JudgeReplyError("unparsable", repr(text)) from error
    if score is None:
        raise JudgeReplyError("missing", "score is null")
    return float(score)


@pytest.fixture
def server() -> Iterator[FakeJudgeServer]:
    """A server that answers each question with a score of 0.5."""
    with FakeJudgeServer('{"score": 0.5}') as running:
        yield running


@pytest.fixture
def configured(server: FakeJudgeServer) -> Callable[..., JudgeConfig]:
    """A config of the server, with short waits."""

    def make(**fields: Any) -> JudgeConfig:
        defaults = {"model": "m", "revision": "1", "base_url": server.base_url, "backoff_base_s": 0.001}
        return JudgeConfig(**{**defaults, **fields})

    return make


@pytest.fixture
def opened(configured: Callable[..., JudgeConfig]) -> Iterator[Opened]:
    """Open an endpoint of the server; it is closed after the test, and leaves no thread."""
    with ExitStack() as stack:

        def make(content: str = "content", **fields: Any) -> JudgeEndpoint:
            endpoint = JudgeEndpoint(configured(**fields), content)
            endpoint.open()
            stack.callback(endpoint.close)
            return endpoint

        yield make
    assert [each.name for each in threading.enumerate() if each.name.startswith("posttrain")] == []


@pytest.fixture
def calls() -> Calls:
    """So many different questions about trajectories ``t0``, ``t1`` and so on."""

    def make(count: int = 1, **fields: Any) -> list[JudgeCall[float]]:
        return [
            JudgeCall(
                **{
                    "messages": ({"role": "user", "content": f"question {number}"},),
                    "parse": parse_score,
                    "key": f"trajectory 't{number}'",
                    **fields,
                }
            )
            for number in range(count)
        ]

    return make
