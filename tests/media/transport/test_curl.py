# SPDX-License-Identifier: Apache-2.0
"""Requests through the real curl, to a real server."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.media.transport import Answer, CurlTransport, FileBody, NoAnswer, Post, Secret, Transport
from posttrain.testing.reward_service import FakeRewardService, answer, endless_body, never_answer, raw
from reward_service_faults import children

PostTo = Callable[..., Post]


def test_a_form_arrives_as_it_was_given(post_to: PostTo) -> None:
    """Method, headers, length and body are those of the request; the answer's status and body come back."""
    with FakeRewardService(pull=[answer(418, b"\x00\xff short")]) as service:
        transport = CurlTransport()
        assert isinstance(transport, Transport)
        found = transport.post(post_to(service.pull_url, headers=(("X-Lepton-Replica-Target", "rep-7"),)))
        assert found == Answer(418, b"\x00\xff short")
        (received,) = service.pulls
        assert received.method == "POST"
        assert received.head == b"uuid=u1&type=t"
        assert received.headers["content-type"] == "application/x-www-form-urlencoded"
        assert received.headers["content-length"] == "14"
        assert received.headers["x-lepton-replica-target"] == "rep-7"
        assert "expect" not in received.headers
        assert "authorization" not in received.headers
        assert "accept-encoding" not in received.headers


@pytest.mark.parametrize("size", [0, 1, 65_537, 3_000_000])
def test_a_file_is_streamed_whole_from_its_start(post_to: PostTo, size: int) -> None:
    """A file without a name arrives byte for byte with its length, wherever its descriptor stands."""
    content = hashlib.shake_256(b"any").digest(size)
    with FakeRewardService() as service, tempfile.TemporaryFile(buffering=0) as file:
        file.write(content)
        body = FileBody(file.fileno(), size)
        found = CurlTransport().post(post_to(service.enqueue_url, body=body, content_type="application/octet-stream"))
        assert isinstance(found, Answer)
        assert found.status == 200
        (received,) = service.enqueues
        assert received.sha256 == hashlib.sha256(content).hexdigest()
        assert received.headers["content-length"] == str(size)
        assert received.headers["content-type"] == "application/octet-stream"
        assert "transfer-encoding" not in received.headers
        # Still the caller's, and open.
        assert file.seek(0, os.SEEK_END) == size


@pytest.mark.parametrize("token", ["tok-TEST-111", 'a"b\\c', "\\n", "@/etc/passwd", "a%20b", "x" * 4096])
def test_any_token_arrives_to_the_letter(post_to: PostTo, token: str) -> None:
    """Quotes, backslashes and other characters that a curl config gives a meaning to are only characters."""
    with FakeRewardService(token=token) as service:
        found = CurlTransport().post(post_to(service.pull_url, token=Secret(token, "it")))
        assert isinstance(found, Answer)
        assert found.status == 200
        assert service.pulls[0].headers["authorization"] == f"Bearer {token}"


def test_a_redirect_is_not_followed(post_to: PostTo) -> None:
    """The second server sees nothing; the target is reported."""
    with (
        FakeRewardService() as other,
        FakeRewardService(pull=[answer(307, headers={"Location": other.pull_url})]) as first,
    ):
        found = CurlTransport().post(post_to(first.pull_url, token=Secret("tok-TEST-111", "it")))
        assert found == Answer(307, b"", other.pull_url)
        assert other.requests == []


def test_a_proxy_of_the_environment_is_not_used(post_to: PostTo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the lower nor the upper case variables send the credential through somebody else's server."""
    with FakeRewardService() as proxy, FakeRewardService() as service:
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        found = CurlTransport().post(post_to(service.pull_url))
        assert isinstance(found, Answer)
        assert len(service.pulls) == 1
        assert proxy.requests == []


def test_a_users_curlrc_is_not_read(post_to: PostTo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What a user keeps for the shell does not change a request."""
    (tmp_path / ".curlrc").write_text('header = "X-From-Curlrc: yes"\nfail\n')
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CURL_HOME", str(tmp_path))
    with FakeRewardService(pull=[answer(500, "x")]) as service:
        assert CurlTransport().post(post_to(service.pull_url)) == Answer(500, b"x")
        assert "x-from-curlrc" not in service.pulls[0].headers


def test_a_refused_connection_sent_nothing(post_to: PostTo) -> None:
    """Nobody listens: certainly nothing was sent, and the reason is curl's own."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    found = CurlTransport().post(post_to(f"http://127.0.0.1:{port}/x"))
    assert isinstance(found, NoAnswer)
    assert not found.sent
    assert "curl exit 7" in found.why


def test_an_unknown_host_sent_nothing(post_to: PostTo) -> None:
    """A name that does not resolve: nothing was sent."""
    found = CurlTransport().post(post_to("http://no-such-host.invalid/x"))
    assert isinstance(found, NoAnswer)
    assert not found.sent


def test_a_connection_that_never_gets_going_sent_nothing(post_to: PostTo) -> None:
    """A server that accepts and never answers the TLS greeting is given up after the time to connect."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        started = time.monotonic()
        found = CurlTransport().post(post_to(f"https://127.0.0.1:{port}/x", connect_timeout_s=0.5))
        assert time.monotonic() - started < 15
    assert isinstance(found, NoAnswer)
    assert not found.sent


def test_a_server_that_never_answers_is_given_up(post_to: PostTo) -> None:
    """The request went out and its bound is over: something may have been seen of it."""
    with FakeRewardService(pull=[never_answer]) as service:
        started = time.monotonic()
        found = CurlTransport().post(post_to(service.pull_url, timeout_s=1.0))
        assert 0.9 < time.monotonic() - started < 15
    assert isinstance(found, NoAnswer)
    assert found.sent
    assert found.status is None


@pytest.mark.parametrize("announced", [None, 10**12])
def test_an_answer_is_read_up_to_its_limit(post_to: PostTo, announced: int | None) -> None:
    """An answer that goes on is given up, whether it announced its length or not."""
    with FakeRewardService(pull=[endless_body(200, announced=announced)]) as service:
        found = CurlTransport().post(post_to(service.pull_url))
    assert isinstance(found, NoAnswer)
    assert found.oversized
    assert found.sent


def test_an_answer_of_exactly_the_limit_is_read(post_to: PostTo) -> None:
    """The limit itself is allowed, one byte more is not."""
    with FakeRewardService(pull=[answer(200, b"x" * 1000), answer(200, b"x" * 1001)]) as service:
        request = post_to(service.pull_url, max_response_bytes=1000)
        assert CurlTransport().post(request) == Answer(200, b"x" * 1000)
        found = CurlTransport().post(request)
        assert isinstance(found, NoAnswer)
        assert found.oversized


def test_an_interim_answer_alone_is_none(post_to: PostTo) -> None:
    """A server that says 100 and then goes away has not answered."""
    with FakeRewardService(pull=[raw(b"HTTP/1.1 100 Continue\r\n\r\n")]) as service:
        found = CurlTransport().post(post_to(service.pull_url))
    assert isinstance(found, NoAnswer)
    assert found.sent
    assert found.status is None


@pytest.fixture
def untrusted(tmp_path: Path) -> tuple[ssl.SSLContext, Path]:
    """A server's TLS context with a certificate for 127.0.0.1 that nobody signed, and that certificate's file."""
    if shutil.which("openssl") is None:
        pytest.skip("a certificate of our own takes the program openssl")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=fake"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*request, *names], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context, certificate


def test_a_certificate_is_verified(
    post_to: PostTo, untrusted: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown authority is refused before anything is sent, as a fault that a person mends; a named one is taken."""
    context, certificate = untrusted
    with FakeRewardService(tls=context) as service:
        with pytest.raises(RewardConfigError, match=r"the connection is not trusted: .*CURL_CA_BUNDLE"):
            CurlTransport().post(post_to(service.pull_url))
        assert service.requests == []
        monkeypatch.setenv("CURL_CA_BUNDLE", str(certificate))
        found = CurlTransport().post(post_to(service.pull_url))
        assert isinstance(found, Answer)
        assert found.status == 200


@pytest.mark.parametrize("said", [11, 9])
def test_a_file_of_another_length_is_refused(post_to: PostTo, said: int) -> None:
    """A sample that was not written whole is not sent at all."""
    with FakeRewardService() as service, tempfile.TemporaryFile(buffering=0) as file:
        file.write(b"ten bytes.")
        with pytest.raises(RewardContractError, match=f"is 10 bytes long, expected a regular file of {said}"):
            CurlTransport().post(post_to(service.enqueue_url, body=FileBody(file.fileno(), said)))
        assert service.requests == []


def test_a_closed_descriptor_is_refused(post_to: PostTo) -> None:
    """A sample whose file was closed too early is named as such."""
    with tempfile.TemporaryFile() as file:
        descriptor = file.fileno()
    with pytest.raises(RewardContractError, match="can't be read"):
        CurlTransport().post(post_to("http://127.0.0.1:9/x", body=FileBody(descriptor, 0)))


def test_nothing_of_a_request_stays(post_to: PostTo) -> None:
    """After an answer, a timeout and an oversized answer no child process is left."""
    steps = [answer(200, "x"), never_answer, endless_body(200)]
    with FakeRewardService(pull=steps) as service:
        before = children()
        for _ in steps:
            CurlTransport().post(post_to(service.pull_url, timeout_s=1.0))
        assert children() == before


def test_the_repr_names_the_program() -> None:
    """That is all there is to show."""
    assert repr(CurlTransport()) == "CurlTransport(program='curl')"


def test_a_broken_answer_is_told_where_no_exit_code_can_be_learnt(post_to: PostTo) -> None:
    """A process that ignores SIGCHLD is told 0 of each child: what broke off is no answer all the same."""
    cut = raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + b'{"scores":[0.5]}')
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with FakeRewardService(pull=[cut, answer(200, b"{}")]) as service:
            found = CurlTransport().post(post_to(service.pull_url))
            assert isinstance(found, NoAnswer)
            assert (found.status, found.sent) == (200, True)
            assert found.why.startswith("curl exit 18 (transfer closed with 83 bytes")
            assert CurlTransport().post(post_to(service.pull_url)) == Answer(200, b"{}")
    finally:
        signal.signal(signal.SIGCHLD, before)
