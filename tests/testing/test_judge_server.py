# SPDX-License-Identifier: Apache-2.0
"""The fake judge, as any HTTP client sees it."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from posttrain.testing import FakeJudgeServer, JudgeReply, JudgeRequest

CHAT = "/v1/chat/completions"


@pytest.fixture
def server() -> Iterator[FakeJudgeServer]:
    """A server that says "good"."""
    with FakeJudgeServer("good") as running:
        yield running


def _connection(server: FakeJudgeServer) -> http.client.HTTPConnection:
    parts = urlsplit(server.base_url)
    return http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=30)


def _post(server: FakeJudgeServer, text: str = "hello", path: str = CHAT) -> tuple[int, Any]:
    connection = _connection(server)
    try:
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]})
        connection.request("POST", path, body, {"X-Mine": "1"})
        response = connection.getresponse()
        raw = response.read()
        return response.status, json.loads(raw) if raw[:1] == b"{" else raw
    finally:
        connection.close()


def test_a_text_is_a_sound_completion(server: FakeJudgeServer) -> None:
    """It has the shape that the interface has, with usage."""
    status, body = _post(server)
    assert status == 200
    assert body["choices"] == [
        {"index": 0, "message": {"role": "assistant", "content": "good"}, "finish_reason": "stop"}
    ]
    assert body["usage"] == {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def test_scripts_are_used_up_in_order(server: FakeJudgeServer) -> None:
    """A text, a reply, a function; then the default again."""
    server.script("first", JudgeReply(content=None, refusal="no", finish_reason=None, usage=None), _echo)
    said = [_post(server, text)[1] for text in ("a", "b", "c", "d")]
    assert [body["choices"][0]["message"].get("content") for body in said] == ["first", None, "c!", "good"]
    assert said[1]["choices"][0]["message"]["refusal"] == "no"
    assert said[1]["choices"][0]["finish_reason"] is None
    assert "usage" not in said[1]


def _echo(request: JudgeRequest) -> str:
    return f"{request.text}!"


def test_requests_are_recorded(server: FakeJudgeServer) -> None:
    """Number, time, headers in lower case and the body as it came."""
    started = time.monotonic()
    _post(server, "one")
    _post(server, "two")
    first, second = server.requests
    assert [(each.number, each.text) for each in (first, second)] == [(0, "one"), (1, "two")]
    assert started <= first.at <= second.at <= time.monotonic()
    assert first.headers["x-mine"] == "1"
    assert first.body == {"model": "m", "messages": [{"role": "user", "content": "one"}]}
    assert (first.method, first.path, server.connections) == ("POST", CHAT, 2)


def test_errors_and_headers(server: FakeJudgeServer) -> None:
    """A status comes with an error object and its Retry-After; other paths are not found."""
    server.script(JudgeReply.error(429, "slow down", retry_after="7"))
    connection = _connection(server)
    connection.request("POST", CHAT, "{}")
    response = connection.getresponse()
    assert (response.status, response.headers["Retry-After"]) == (429, "7")
    assert json.loads(response.read()) == {"error": {"message": "slow down"}}
    connection.close()
    assert _post(server, path="/v1/models")[0] == 404


def test_a_malformed_body(server: FakeJudgeServer) -> None:
    """It is sent as it is."""
    server.script(JudgeReply(body=b"<html>"))
    assert _post(server) == (200, b"<html>")


@pytest.mark.parametrize(
    ("drop", "error"),
    [
        ("before headers", ConnectionError),
        ("after headers", http.client.IncompleteRead),
        ("mid body", http.client.IncompleteRead),
    ],
)
def test_connections_break_where_they_are_told_to(server: FakeJudgeServer, drop: Any, error: type[Exception]) -> None:
    """Before the headers, after them, or in the middle of the body; the next request is served."""
    server.script(JudgeReply(content="lost", drop=drop))
    with pytest.raises(error, match=r".+"):
        _post(server)
    assert _post(server)[0] == 200


def test_delays_and_trickles(server: FakeJudgeServer) -> None:
    """A reply waits, or comes byte by byte; it is whole in the end."""
    server.script(JudgeReply(content="late", delay_s=0.1), JudgeReply(body=b"0123456789", trickle_s=0.01))
    started = time.monotonic()
    assert _post(server)[1]["choices"][0]["message"]["content"] == "late"
    assert time.monotonic() - started >= 0.1
    started = time.monotonic()
    assert _post(server) == (200, b"0123456789")
    assert time.monotonic() - started >= 0.09


def test_replies_are_held_until_they_are_released(server: FakeJudgeServer) -> None:
    """Five requests are in flight together while replies are held."""
    server.hold()
    threads = [threading.Thread(target=_post, args=(server,)) for _ in range(5)]
    for thread in threads:
        thread.start()
    assert len(server.wait_for(5)) == 5
    server.release()
    for thread in threads:
        thread.join()
    assert server.peak_in_flight == 5
    assert _post(server)[0] == 200


def test_waiting_has_an_end(server: FakeJudgeServer) -> None:
    """Requests that do not come are told with their number."""
    with pytest.raises(TimeoutError, match="0 of 1 requests came"):
        server.wait_for(1, timeout_s=0.05)


def test_one_connection_serves_many_requests(server: FakeJudgeServer) -> None:
    """It is kept alive, and requests that come in pieces are put together."""
    connection = _connection(server)
    for _ in range(3):
        connection.request("POST", CHAT, iter([b"{", b"}"]), {"Content-Length": "2"})
        connection.getresponse().read()
    connection.close()
    assert (len(server.requests), server.connections) == (3, 1)
    assert {request.raw for request in server.requests} == {b"{}"}


def test_what_a_script_raises_reaches_the_test() -> None:
    """The connection is cut, and the block ends with the error, unless it has one of its own."""

    def fail(request: JudgeRequest) -> str:
        raise KeyError(request.text)

    def ask(error: Exception | None) -> None:
        with FakeJudgeServer(fail) as server:
            with pytest.raises((ConnectionError, http.client.HTTPException), match=r".+"):
                _post(server)
            if error is not None:
                raise error

    with pytest.raises(KeyError, match="hello"):
        ask(None)
    with pytest.raises(ValueError, match="mine"):
        ask(ValueError("mine"))


def test_nothing_is_left(server: FakeJudgeServer) -> None:
    """Its thread ends with the block, open connections or not, and it can be left twice."""
    connection = _connection(server)
    connection.request("POST", CHAT, "{}")
    connection.getresponse().read()
    server.__exit__(None, None, None)
    assert [each.name for each in threading.enumerate() if each.name == "fake-judge"] == []
    connection.close()
    assert repr(server).startswith("FakeJudgeServer(http://127.0.0.1:")
