# SPDX-License-Identifier: Apache-2.0
"""A real curl, looked at while its request is under way, and what becomes of it when we end."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from posttrain.errors import RewardError
from posttrain.media.client import RewardServiceClient
from posttrain.media.transport import CurlTransport, FileBody, NoAnswer, Post, Reply, Secret
from posttrain.testing.reward_service import Exchange, FakeRewardService, never_answer
from reward_service_faults import TOKEN, VARIABLE, children, config_for, spooled

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks at processes through /proc")

PostTo = Callable[..., Post]
SIZE = 96 << 20

_SCRIPT = """
import sys, tempfile
from posttrain.media.transport import CurlTransport, FileBody, Post
with tempfile.TemporaryFile(buffering=0) as file:
    file.truncate(1 << 20)
    CurlTransport().post(Post(url=sys.argv[1], body=FileBody(file.fileno(), 1 << 20), content_type="a/b",
                              connect_timeout_s=100.0, timeout_s=100.0, max_response_bytes=1000))
"""


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def _gone(pids: list[int], within_s: float = 20.0) -> bool:
    ends = time.monotonic() + within_s
    while any(map(_alive, pids)) and time.monotonic() < ends:
        # A process of nobody that we could wait for: looked at until it is gone.
        threading.Event().wait(0.01)
    return not any(map(_alive, pids))


def test_secrets_02_the_token_is_nowhere_to_be_seen(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Case secrets-02: no command line, environment, file, log or error holds the token, under way or after."""
    monkeypatch.setenv(VARIABLE, TOKEN)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    caplog.set_level(logging.DEBUG)
    raised: list[RewardError] = []
    looked = threading.Event()

    def wait_until_looked_at(exchange: Exchange) -> None:
        exchange.read()
        looked.wait(60)

    with FakeRewardService([wait_until_looked_at], token=TOKEN) as service:
        client = RewardServiceClient(config_for(service))
        before = children()

        def work() -> None:
            with spooled(client.enqueue_line(None), b"array") as sample:
                try:
                    client.score(sample, deadline=time.monotonic() + 60)
                except RewardError as error:
                    raised.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        service.wait_until(lambda fake: len(fake.enqueues) == 1)
        flying = [child for child in children() if child not in before]
        assert flying
        for child in flying:
            command = Path(f"/proc/{child}/cmdline").read_bytes()
            assert command.split(b"\0")[1:] == [b"-q", b"--config", b"-", b""]
            assert TOKEN.encode() not in Path(f"/proc/{child}/environ").read_bytes()
        # The token is in the server's hands, so it was sent.
        assert service.enqueues[0].headers["authorization"] == f"Bearer {TOKEN}"
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
        looked.set()
        thread.join()
    assert len(raised) == 1
    assert TOKEN not in f"{raised[0]!s} {raised[0]!r} {raised[0].__cause__!r} {caplog.text} {client!r}"


def test_an_upload_takes_little_memory(post_to: PostTo) -> None:
    """While 96 MiB are sent, curl holds far less than that."""
    peak: list[int] = []

    def look(exchange: Exchange) -> None:
        exchange.read(SIZE - 1)
        # The whole body has passed through curl, but for a byte.
        for child in children():
            name = Path(f"/proc/{child}/comm").read_text().strip()
            if name == "curl":
                status = Path(f"/proc/{child}/status").read_text()
                peak.append(int(status.partition("VmHWM:")[2].split()[0]))
        exchange.read()

    with FakeRewardService([look]) as service, tempfile.TemporaryFile(buffering=0) as file:
        file.truncate(SIZE)
        CurlTransport().post(post_to(service.enqueue_url, body=FileBody(file.fileno(), SIZE), timeout_s=120.0))
        assert service.enqueues[0].size == SIZE
    # In KiB.
    assert len(peak) == 1
    assert peak[0] < 40 << 10


def _started(service: FakeRewardService) -> tuple[subprocess.Popen[bytes], list[int]]:
    """A process with a request under way, and its curl."""
    process = subprocess.Popen(
        [sys.executable, "-c", _SCRIPT, service.enqueue_url], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    service.wait_until(lambda fake: len(fake.enqueues) == 1)
    found = children(process.pid)
    assert found
    return process, found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_curl_ends_with_the_process_that_started_it(number: signal.Signals) -> None:
    """An interrupt kills and reaps curl and passes through; a process that is killed takes its curl with it."""
    if number != signal.SIGINT and shutil.which("setpriv") is None:
        pytest.skip("dying with a killed parent takes setpriv")
    with FakeRewardService([never_answer]) as service:
        process, curl = _started(service)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
        assert _gone(curl)
        assert process.returncode == -number
        assert (b"KeyboardInterrupt" in said) == (number == signal.SIGINT)


def test_an_interrupt_leaves_nothing_behind(post_to: PostTo) -> None:
    """A KeyboardInterrupt in the middle of a request: curl is killed and reaped, descriptors are closed."""
    descriptors = len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # names are enough
    before = children()

    def interrupt(exchange: Exchange) -> None:
        exchange.read()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        exchange.hold()

    with FakeRewardService(pull=[interrupt]) as service, pytest.raises(KeyboardInterrupt, match=r"^$"):
        CurlTransport().post(post_to(service.pull_url, token=Secret(TOKEN, "it")))
    assert children() == before
    assert len(os.listdir("/proc/self/fd")) == descriptors  # noqa: PTH208  # names are enough


def test_requests_of_several_threads_do_not_share_descriptors(post_to: PostTo) -> None:
    """Eight uploads at once, each from its own file: each server-side body is the right one."""
    found: list[Reply] = []
    with FakeRewardService() as service:
        transport = CurlTransport()
        transport.check_machine()

        def upload(number: int) -> None:
            with tempfile.TemporaryFile(buffering=0) as file:
                file.write(bytes([number]) * 200_000)
                found.append(transport.post(post_to(service.enqueue_url, body=FileBody(file.fileno(), 200_000))))

        threads = [threading.Thread(target=upload, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not any(isinstance(each, NoAnswer) for each in found)
        assert sorted(each.head[0] for each in service.enqueues) == list(range(8))
        assert all(set(each.head) == {each.head[0]} for each in service.enqueues)
