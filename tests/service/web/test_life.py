# SPDX-License-Identifier: Apache-2.0
"""From the first line to the last: how a server starts, drains and ends, and what a restart finds."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import pytest

from service.conftest import OWN
from service.driving import Served, children_of, image_line, npy

ServeIt = Callable[..., Served]
PIXEL = npy(1, 1, 1, 3)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _gone(pids: set[int]) -> bool:
    deadline = monotonic() + 30
    while any(map(_alive, pids)):
        if monotonic() > deadline:
            return False
        sleep(0.02)
    return True


def test_a_signal_ends_it_with_nothing_left(serve_it: ServeIt, tmp_path: Path) -> None:
    """Exit code 0; no process, no file; the port is free again."""
    served = serve_it(*OWN, "--catalog", "my_rewards:catalog", "--spool-dir", tmp_path, "--drain", "0")
    served.scored(image_line("moody", prompts=["calm"]), PIXEL, "moody")
    group = {"provider": "slow", "group_id": "g", "candidates": [{"trajectory_id": "a", "completion": "0"}]}
    assert served.group(group).status == 200
    children = served.children()
    assert len(children) >= 2
    assert len(list(tmp_path.iterdir())) == 1
    assert served.end() == 0
    assert list(tmp_path.iterdir()) == []
    assert _gone(children)
    with socket.create_server(served.address, reuse_port=False):
        pass


def test_a_signal_before_it_listens_ends_it_too(workplace: Path, tmp_path: Path) -> None:
    """While a scorer is loaded, which may take its time: exit code 0, no process, no file."""
    flags = ("--image-scorer", "slow=slow_scorers:f", "--start-timeout", "600", "--spool-dir", str(tmp_path))
    command = [sys.executable, "-m", "posttrain", "serve", "--port", "0", *flags]
    with subprocess.Popen(command, cwd=workplace, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while not (children := children_of(process.pid)):
            sleep(0.01)
        process.send_signal(signal.SIGTERM)
        out, log = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, b""), log
    assert _gone(children)
    assert list(tmp_path.iterdir()) == []


def test_work_drains_before_the_end(serve_it: ServeIt) -> None:
    """After SIGTERM accepted work is scored and can still be pulled; new work is refused; then it ends at once."""
    served = serve_it(*OWN, "--scorer-timeout", "1", "--drain", "30")
    hanging = served.enqueue(image_line("moody", prompts=["hang"]), PIXEL).json["uuid"]
    waiting = served.enqueue(image_line("moody", prompts=["calm"]), PIXEL).json["uuid"]
    served.process.send_signal(signal.SIGTERM)
    while (health := served.ask("GET", "/healthz")).status == 200:
        sleep(0.01)
    assert (health.status, health.json) == (503, {"status": "draining"})
    refused = served.enqueue(image_line(), PIXEL)
    assert (refused.status, refused.headers["retry-after"]) == (503, "1")
    group = {"provider": "constant", "group_id": "g", "candidates": [{"trajectory_id": "a", "completion": "0"}]}
    assert served.group(group).status == 503
    assert "did not answer within 1 s" in served.result(hanging, "moody")["error"]
    started = monotonic()
    assert served.result(waiting, "moody")["scores"] == {"moody": [0.25]}
    assert served.end() == 0
    assert monotonic() - started < 25


def test_draining_is_bounded(serve_it: ServeIt, tmp_path: Path) -> None:
    """A scorer that hangs is killed with the rest when the time is over; a second signal does not wait for it."""
    for drain, signals in (("0.5", 1), ("600", 2)):
        served = serve_it(*OWN, "--scorer-timeout", "600", "--drain", drain, "--spool-dir", tmp_path)
        served.enqueue(image_line("moody", prompts=["hang"]), PIXEL)
        children = served.children()
        for _ in range(signals):
            served.process.send_signal(signal.SIGTERM)
            while served.process.poll() is None and "draining" not in served.log:
                sleep(0.01)
        assert served.end() == 0
        assert _gone(children)
        assert list(tmp_path.iterdir()) == []


def test_a_group_in_hand_at_the_end_is_told(serve_it: ServeIt) -> None:
    """The caller gets 503 and no scores."""
    served = serve_it("--catalog", "my_rewards:catalog", "--group-timeout", "600", "--drain", "0.5")
    group = {"provider": "slow", "group_id": "g", "candidates": [{"trajectory_id": "a", "completion": "300"}]}
    answers = []
    thread = threading.Thread(target=lambda: answers.append(served.group(group)))
    thread.start()
    while not served.children():
        sleep(0.01)
    assert served.end() == 0
    thread.join(30)
    assert [answer.status for answer in answers] == [503]
    assert answers[0].json["error"]["kind"] == "unavailable"


def test_a_server_that_is_killed_takes_its_processes_along(serve_it: ServeIt, tmp_path: Path) -> None:
    """And the next one removes the files that it left."""
    served = serve_it(*OWN, "--spool-dir", tmp_path)
    served.enqueue(image_line("moody", prompts=["hang"]), PIXEL)
    children = served.children()
    assert children
    served.end(signal.SIGKILL)
    assert _gone(children)
    assert len(list(tmp_path.glob("*/*.npy"))) == 1
    served = serve_it("--spool-dir", tmp_path)
    assert list(tmp_path.glob("*/*.npy")) == []
    assert served.end() == 0


@pytest.mark.slow
def test_a_restart_with_redis(serve_it: ServeIt, redis_url: str) -> None:
    """What was finished is there; what was in flight is an error soon, and not pending for ever; 202 while it waits."""
    flags = (*OWN, "--redis-env", "REDIS_AT", "--pending", "202", "--drain", "0")
    served = serve_it(*flags, REDIS_AT=redis_url)
    done = served.enqueue(image_line(), PIXEL).json["uuid"]
    result = served.result(done, "brightness")
    lost = served.enqueue(image_line("moody", prompts=["hang"]), PIXEL).json["uuid"]
    pending = served.pull(lost, "moody")
    assert (pending.status, pending.json) == (202, {"uuid": lost, "status": "pending"})
    served.end(signal.SIGKILL)
    served = serve_it(*flags, REDIS_AT=redis_url)
    assert served.result(done, "brightness") == result
    told = served.result(lost, "moody", within_s=60)
    assert (told["scores"], told["error"]) == (None, "the service ended before this was scored: enqueue it again")
    unknown = served.pull("nobody", "moody")
    assert (unknown.status, unknown.json) == (400, {"message": "Not found scores for nobody"})
    stopped = served.enqueue(image_line("moody", prompts=["hang"]), PIXEL).json["uuid"]
    assert served.end() == 0
    log = served.log
    served = serve_it(*flags, REDIS_AT=redis_url)
    assert "shut down before this was scored" in served.result(stopped, "moody")["error"]
    assert "pass-of-redis" not in log + served.log


@pytest.mark.parametrize(
    ("flags", "code", "text"),
    [
        (("--image-scorer", "x=my_scorers:nothing"), 2, "set-up: scorer 'my_scorers:nothing': AttributeError"),
        (("--catalog", "nothing:catalog"), 2, "catalog module 'nothing' can't be found"),
        (("--token-env", "NO_SUCH_VARIABLE"), 2, "environment variable 'NO_SUCH_VARIABLE' is not set"),
        (("--redis", "redis://127.0.0.1:1"), 4, "unavailable: the store does not answer: Redis: ConnectionError"),
        (("--spool-dir", "/nowhere"), 2, "the spool folder /nowhere: No such file"),
    ],
)
def test_what_can_not_be_served_is_told_at_once(
    serve_it: ServeIt, flags: tuple[str, ...], code: int, text: str
) -> None:
    """Before it listens to anybody: one message, the exit code of its kind, no process left."""
    served = serve_it(*flags)
    assert served.url == ""
    assert served.end() == code
    assert text in served.log
    assert "Traceback" not in served.log


def test_a_port_that_is_taken_is_told(workplace: Path) -> None:
    """With the reason of the system."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        served = Served(workplace, ("--port", str(port)), {})
        assert served.end() == 2
    assert f"can't listen on 127.0.0.1, port {port}: Address already in use" in served.log


def test_children_are_those_of_the_server_alone() -> None:
    """The helper of these tests sees a child of this process."""
    pid = os.posix_spawn("/bin/sleep", ["sleep", "60"], {})
    assert pid in children_of(os.getpid())
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
