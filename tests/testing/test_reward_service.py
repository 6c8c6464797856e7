# SPDX-License-Identifier: Apache-2.0
"""The scripted reward service, driven by the standard library's client and by bare sockets."""

from __future__ import annotations

import hashlib
import http.client
import json
import socket
from typing import Any
from urllib.parse import urlencode

import pytest

from posttrain.testing import FakeRewardService
from posttrain.testing.reward_service import (
    Exchange,
    answer,
    answer_early,
    close_unanswered,
    cut_short,
    drop_mid_upload,
    enqueued,
    never_answer,
    not_found,
    pending,
    raw,
    reset,
    scored,
    slow_body,
)


def _post(url: str, body: bytes, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
    host, _, path = url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=30)
    try:
        connection.request("POST", f"/{path}", body, headers or {})
        found = connection.getresponse()
        return found.status, found.read()
    finally:
        connection.close()


def _pull(service: FakeRewardService, uuid: str = "fake-1") -> tuple[int, Any]:
    status, body = _post(service.pull_url, urlencode({"uuid": uuid, "type": "t"}).encode())
    return status, json.loads(body)


def test_without_a_script_every_sample_is_taken_and_scored() -> None:
    """Uuids count up, scores are one half."""
    with FakeRewardService() as service:
        assert _post(service.enqueue_url, b"{}\nx") == (200, b'{"uuid":"fake-1"}')
        assert _post(service.enqueue_url, b"{}\nx") == (200, b'{"uuid":"fake-2"}')
        assert _pull(service)[1]["scores"] == {"overall_reward": [0.5]}


def test_steps_are_taken_in_order_and_the_last_is_repeated() -> None:
    """A script of three gives its third from then on; enqueues and pulls have scripts of their own."""
    with FakeRewardService([enqueued("u", replica_id="r"), answer(503, "busy")], [pending(), not_found()]) as service:
        assert _post(service.enqueue_url, b"") == (200, b'{"uuid":"u","replica_id":"r"}')
        assert _post(service.enqueue_url, b"") == (503, b"busy")
        assert _pull(service, "u") == (202, {"uuid": "u", "status": "pending"})
        assert _pull(service, "u") == (400, {"message": "Not found scores for u"})
        assert _pull(service, "v") == (400, {"message": "Not found scores for v"})


def test_pending_steps_can_be_about_somebody_else() -> None:
    """A foreign uuid or another word, as a broken service would send them."""
    with FakeRewardService(pull=[pending("w", status="queued"), not_found("w")]) as service:
        assert _pull(service) == (202, {"uuid": "w", "status": "queued"})
        assert _pull(service) == (400, {"message": "Not found scores for w"})


def test_scores_come_with_the_public_servers_other_members() -> None:
    """NaN is written as Python does it, which is no JSON."""
    with FakeRewardService(pull=[scored({"a": [float("nan")]})]) as service:
        status, body = _post(service.pull_url, b"uuid=u")
        assert status == 200
        assert body.startswith(b'{"scores":{"a":[NaN]},"input_info":')


def test_a_request_is_remembered_in_full() -> None:
    """Method, path, headers, size and digest of the body, its first line, and the fields of a form."""
    body = b'{"media_type": "image"}\n' + bytes(100_000)
    with FakeRewardService() as service:
        _post(service.enqueue_url, body, {"X-Lepton-Replica-Target": "rep-7"})
        _pull(service, "a b")
        (received,) = service.enqueues
        assert (received.method, received.path) == ("POST", "/api/reward/enqueue")
        assert received.headers["x-lepton-replica-target"] == "rep-7"
        assert (received.size, received.sha256) == (len(body), hashlib.sha256(body).hexdigest())
        assert received.line == b'{"media_type": "image"}'
        assert received.head == body[:65_536]
        assert service.pulls[0].form == {"uuid": "a b", "type": "t"}
        assert service.requests == [received, service.pulls[0]]
        service.wait_until(lambda fake: all(each.closed for each in fake.requests))


def test_a_token_is_asked_for_before_any_step() -> None:
    """A missing or wrong token is 401 and leaves the script where it is."""
    with FakeRewardService([enqueued("u"), answer(500)], token="tok") as service:  # noqa: S106  # a fake
        for headers in ({}, {"Authorization": "Bearer other"}, {"Authorization": "tok"}):
            assert _post(service.enqueue_url, b"", headers)[0] == 401
        assert _post(service.enqueue_url, b"", {"Authorization": "Bearer tok"}) == (200, b'{"uuid":"u"}')


def test_other_paths_and_methods_are_refused() -> None:
    """As the public server does it."""
    with FakeRewardService() as service:
        assert _post(service.url + "/api/reward/pin", b"")[0] == 404
        connection = http.client.HTTPConnection(service.url.removeprefix("http://"), timeout=30)
        connection.request("GET", "/api/reward/pull")
        assert connection.getresponse().status == 405
        connection.close()


@pytest.mark.parametrize(
    ("step", "error"),
    [
        (close_unanswered, http.client.RemoteDisconnected),
        (reset, ConnectionResetError),
        (raw(b"hello\r\n"), http.client.BadStatusLine),
        (cut_short(200, {"uuid": "u"}), http.client.IncompleteRead),
    ],
)
def test_a_broken_answer_is_broken_as_it_is_named(step: Any, error: type[Exception]) -> None:
    """A close, a reset, bytes that are not HTTP, and a body that breaks off, as a client sees them."""
    with FakeRewardService([step]) as service:
        with pytest.raises(error, match=r".|^$"):
            _post(service.enqueue_url, b"{}\n" + bytes(1000))
        assert service.enqueues[0].size == 1003
        assert service.enqueues[0].sha256


def test_an_upload_can_be_dropped_or_answered_while_it_runs() -> None:
    """The server has read only as much as it was told to; an early answer arrives all the same."""
    head = b"POST /api/reward/enqueue HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"
    with FakeRewardService([answer_early(413, after=10), drop_mid_upload(10)]) as service:
        port = int(service.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
            client.sendall(head + b"x" * 10)
            assert client.recv(100).startswith(b"HTTP/1.1 413 ")
        with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
            client.sendall(head + b"x" * 10)
            with pytest.raises(ConnectionResetError, match="reset"):
                client.recv(100)
        assert [each.size for each in service.enqueues] == [10, 10]
        assert [each.sha256 for each in service.enqueues] == ["", ""]


def test_closing_ends_what_is_held_or_slow() -> None:
    """A connection that is never answered, and a body that takes a minute, end with the service."""
    with FakeRewardService([never_answer], [slow_body(200, b"x" * 60, every_s=1.0)]) as service:
        port = int(service.url.rpartition(":")[2])
        clients = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(2)]
        for client, path in zip(clients, ("enqueue", "pull"), strict=True):
            client.sendall(f"POST /api/reward/{path} HTTP/1.1\r\nContent-Length: 0\r\n\r\n".encode())
        service.wait_until(lambda fake: len(fake.requests) == 2)
    for client in clients:
        while client.recv(1000):
            pass
        client.close()


def test_what_does_not_happen_is_reported() -> None:
    """Waiting for a request that never comes ends with an error that says so."""
    with FakeRewardService() as service, pytest.raises(TimeoutError, match=r"0 requests\): what was waited for"):
        service.wait_until(lambda fake: len(fake.requests) == 1, timeout_s=0.01)


def test_a_step_of_ones_own() -> None:
    """Any function of an exchange is a step."""

    def echo(exchange: Exchange) -> None:
        exchange.read()
        answer(200, exchange.received.head)(exchange)

    with FakeRewardService([echo]) as service:
        assert _post(service.enqueue_url, b"hello") == (200, b"hello")
