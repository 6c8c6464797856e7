# SPDX-License-Identifier: Apache-2.0
"""Connections that fail, break, or take too long."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TypeAlias

import pytest

from posttrain.errors import RewardConfigError, RewardUnavailableError
from posttrain.judges.config import JudgeConfig
from posttrain.judges.endpoint import JudgeCall, JudgeEndpoint
from posttrain.testing import FakeJudgeServer, JudgeReply

Opened: TypeAlias = Callable[..., JudgeEndpoint]
Calls: TypeAlias = Callable[..., list[JudgeCall[float]]]
Configured: TypeAlias = Callable[..., JudgeConfig]


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


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """A proxy of the environment, with a password, that answers with these statuses; the last over and over."""
    statuses: list[int] = []

    class Proxy(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            self.send_response(statuses.pop(0) if len(statuses) > 1 else statuses[0])
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_POST(self) -> None:
            self.do_CONNECT()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        for name in ("http_proxy", "https_proxy"):
            monkeypatch.setenv(name, f"http://me:hunter2@127.0.0.1:{proxy.server_port}")
        monkeypatch.setenv("no_proxy", "")
        yield statuses
        proxy.shutdown()
        thread.join()


@pytest.mark.parametrize(("scheme", "status"), [("https", 407), ("https", 403), ("http", 407)])
def test_a_proxy_that_refuses_is_for_a_person_to_mend(
    opened: Opened, calls: Calls, refusing: list[int], scheme: str, status: int
) -> None:
    """It is not asked again, and its password is in no error and no cause."""
    refusing += [status, 500]
    endpoint = opened(base_url=f"{scheme}://judge.invalid/v1", proxy_from_environment=True)
    with pytest.raises(RewardConfigError, match=str(status)) as caught:
        endpoint.ask(calls())
    assert "hunter2" not in f"{caught.value} {caught.value.__cause__} {caught.value.cause_text}"


def test_a_proxy_that_fails_is_asked_again(opened: Opened, calls: Calls, refusing: list[int]) -> None:
    """A 502 of the proxy may pass; its password is in no reason."""
    refusing += [502]
    endpoint = opened(base_url="https://judge.invalid/v1", proxy_from_environment=True, max_retries=1)
    with pytest.raises(RewardUnavailableError, match=r"(?s)1: ClientHttpProxyError: 502.*2: ClientHttpProxy") as caught:
        endpoint.ask(calls())
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "proxy", ["socks5://me:hunter2@h:1", "http://me:hunter2@h:99999", "me:hunter2@h:3128", "http://"]
)
def test_a_proxy_that_can_not_be_one(configured: Configured, monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    """Opening refuses it, names the variable and does not show its value; unless it is to be used nothing is said."""
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.setenv("no_proxy", "")
    endpoint = JudgeEndpoint(configured(proxy_from_environment=True), "content")
    with pytest.raises(RewardConfigError, match="environment's http_proxy, not shown, can't be used") as caught:
        endpoint.open()
    assert "hunter2" not in str(caught.value)
    with pytest.raises(RewardConfigError, match=r"machine lacks.*\n.*http_proxy, not shown"):
        endpoint.check_machine()
    other = JudgeEndpoint(configured(), "content")
    other.open()
    other.close()
