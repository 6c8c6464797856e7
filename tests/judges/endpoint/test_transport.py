# SPDX-License-Identifier: Apache-2.0
"""Connections that fail, break, or take too long."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import TypeAlias

import pytest

from posttrain.errors import RewardUnavailableError
from posttrain.judges.endpoint import JudgeCall, JudgeEndpoint
from posttrain.testing import FakeJudgeServer, JudgeReply

Opened: TypeAlias = Callable[..., JudgeEndpoint]
Calls: TypeAlias = Callable[..., list[JudgeCall[float]]]


@pytest.mark.parametrize("drop", ["before headers", "after headers", "mid body"])
def test_a_connection_that_breaks_is_asked_again(
    server: FakeJudgeServer, opened: Opened, calls: Calls, drop: str
) -> None:
    """Wherever it breaks, half an answer is none."""
    server.script(JudgeReply(content='{"score": 1}', drop=drop))  # type: ignore[arg-type]  # one of its words
    (answer,) = opened().ask(calls())
    assert (answer.value, answer.calls) == (0.5, 2)


def test_a_slow_reply_ends_its_attempt(server: FakeJudgeServer, opened: Opened, calls: Calls) -> None:
    """An attempt that takes longer than it may is given up, and the next one is answered."""
    server.script(JudgeReply(content='{"score": 1}', delay_s=60.0))
    (answer,) = opened(connect_timeout_s=0.2, read_timeout_s=0.8).ask(calls())
    assert (answer.value, answer.calls) == (0.5, 2)


def test_a_trickle_ends_its_attempt_too(server: FakeJudgeServer, opened: Opened, calls: Calls) -> None:
    """A byte now and then does not keep an attempt alive."""
    server.script(JudgeReply(content='{"score": 1}', trickle_s=0.05))
    (answer,) = opened(connect_timeout_s=0.2, read_timeout_s=0.8).ask(calls())
    assert (answer.value, answer.calls) == (0.5, 2)


def test_the_deadline_holds_over_all_attempts(server: FakeJudgeServer, opened: Opened, calls: Calls) -> None:
    """Every attempt is slow: after the total it is over, however many retries and seconds of an attempt are left."""
    server.script(*[JudgeReply(content="{}", delay_s=60.0)] * 20)
    started = time.monotonic()
    with pytest.raises(RewardUnavailableError, match=r"the deadline of 1\.5 s"):
        opened(connect_timeout_s=0.1, read_timeout_s=0.4, total_timeout_s=1.5, max_retries=19).ask(calls())
    assert 1.4 < time.monotonic() - started < 30
    assert 2 <= len(server.requests) <= 4


def test_the_last_attempt_has_what_is_left(server: FakeJudgeServer, opened: Opened, calls: Calls) -> None:
    """An attempt may take a minute, but only half a second is left."""
    server.script(JudgeReply(content="{}", delay_s=60.0))
    with pytest.raises(RewardUnavailableError, match=r"1: no whole answer within the 0\.5 s that were left"):
        opened(total_timeout_s=0.5).ask(calls())


def test_nobody_listens(opened: Opened, calls: Calls) -> None:
    """A refused connection is a failure of the transport: retried, then unavailable."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    with pytest.raises(RewardUnavailableError, match=r"(?s)after 2 attempts.*ClientConnectorError"):
        opened(base_url=url, max_retries=1).ask(calls())


def test_a_connection_that_is_not_accepted(opened: Opened, calls: Calls) -> None:
    """A server that is too busy to accept is given up after the time to connect."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        with socket.create_connection(deaf.getsockname()), socket.socket() as second:
            second.setblocking(False)
            second.connect_ex(deaf.getsockname())
            url = f"http://127.0.0.1:{deaf.getsockname()[1]}/v1"
            with pytest.raises(RewardUnavailableError, match=r"no connection within 0\.2 s"):
                opened(base_url=url, max_retries=0, connect_timeout_s=0.2, read_timeout_s=20.0).ask(calls())


def test_no_more_than_the_bound_is_read(server: FakeJudgeServer, opened: Opened, calls: Calls) -> None:
    """Of a body of 64 MiB a few are read, then its connection is cut."""
    server.script(JudgeReply(body=b" " * (64 << 20)))
    (answer,) = opened(max_response_bytes=4096).ask(calls())
    assert (answer.value, answer.calls, answer.parse_failures) == (0.5, 2, 1)
    assert server.connections == 2


def test_connections_are_used_again(server: FakeJudgeServer, opened: Opened, calls: Calls) -> None:
    """50 calls, 5 at once, over 5 connections."""
    opened(concurrency=5).ask(calls(50))
    assert (len(server.requests), server.connections) == (50, 5)


def test_a_proxy_is_used_only_when_asked(
    server: FakeJudgeServer, opened: Opened, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment's proxy is left alone by default, and NO_PROXY is heeded."""
    monkeypatch.setenv("http_proxy", server.base_url.removesuffix("/v1"))
    monkeypatch.setenv("no_proxy", "")
    opened().ask(calls())
    assert server.requests[0].path == "/v1/chat/completions"
    through = opened(base_url="http://judge.invalid/v1", proxy_from_environment=True, max_retries=0)
    with pytest.raises(Exception, match="404"):
        through.ask(calls())
    assert server.requests[1].path == "http://judge.invalid/v1/chat/completions"
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    opened(proxy_from_environment=True).ask(calls())
    assert server.requests[2].path == "/v1/chat/completions"
