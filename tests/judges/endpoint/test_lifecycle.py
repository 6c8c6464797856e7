# SPDX-License-Identifier: Apache-2.0
"""Opening, closing, and what is left behind: nothing."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

import pytest

from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.judges.config import JudgeConfig
from posttrain.judges.endpoint import JudgeCall, JudgeEndpoint
from posttrain.judges.endpoint.credential import read_credential
from posttrain.testing import FakeJudgeServer, JudgeReply

Opened: TypeAlias = Callable[..., JudgeEndpoint]
Calls: TypeAlias = Callable[..., list[JudgeCall[float]]]
Configured: TypeAlias = Callable[..., JudgeConfig]


def _ours() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("posttrain")]


def _sockets() -> int:
    names = [each.readlink().name for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    return sum(name.startswith("socket:") for name in names)


def test_making_one_does_nothing(configured: Configured, tmp_path: Path) -> None:
    """No key is needed, no file is made, no thread runs, no call goes out."""
    endpoint = JudgeEndpoint(configured(credential="NOT_SET_ANYWHERE", cache=str(tmp_path / "c")), "content")
    endpoint.close()
    assert _ours() == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (None, "environment variable MY_KEY is not set"),
        ("", "environment variable MY_KEY is empty"),
        (" \n", "environment variable MY_KEY is empty"),
        ("hunter2\nX-Evil: 1", "characters that no key has"),
        ("hunter2 hunter2", "characters that no key has"),
        ("hünter2", "characters that no key has"),
    ],
)
def test_a_key_that_can_not_be_sent(
    configured: Configured, monkeypatch: pytest.MonkeyPatch, value: str | None, fault: str
) -> None:
    """Opening refuses it by one line that names the variable and not its value; nothing is left open."""
    monkeypatch.delenv("MY_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("MY_KEY", value)
    endpoint = JudgeEndpoint(configured(credential="MY_KEY"), "content")
    with pytest.raises(RewardConfigError, match=fault) as caught:
        endpoint.open()
    assert "\n" not in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert _ours() == []


def test_a_key_is_not_copied_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """It can't be pickled, and its repr names the variable alone."""
    monkeypatch.setenv("MY_KEY", "hunter2-hunter2")
    credential = read_credential("MY_KEY")
    assert repr(credential) == "Credential('MY_KEY', value hidden)"
    with pytest.raises(TypeError, match="not copied or sent"):
        pickle.dumps(credential)


def test_all_endpoints_share_a_thread_until_the_last_closes(configured: Configured, calls: Calls) -> None:
    """The first open starts it, the last close ends it with every socket, and it can begin again."""
    gc.collect()
    before = _sockets()
    with FakeJudgeServer('{"score": 0.5}') as server:
        for _ in range(2):
            configs = [configured(model=name, base_url=server.base_url) for name in ("a", "b", "c")]
            endpoints = [JudgeEndpoint(config, "content") for config in configs]
            for endpoint in endpoints:
                endpoint.open()
                endpoint.ask(calls(4))
            for endpoint in endpoints:
                assert _ours() == ["posttrain-judges"]
                endpoint.close()
                endpoint.close()
            assert _ours() == []
        assert len(server.requests) == 24
    # The server's ends of the connections are closed too by now.
    assert _sockets() == before


def test_it_is_opened_once(opened: Opened) -> None:
    """Opening what is open is a mistake of the caller, and is told."""
    with pytest.raises(RewardContractError, match="is open already"):
        opened().open()


def test_asking_what_is_not_open(configured: Configured, calls: Calls) -> None:
    """Neither before `open` nor after `close`."""
    endpoint = JudgeEndpoint(configured(), "content")
    with pytest.raises(RewardContractError, match="is not open"):
        endpoint.ask(calls())
    endpoint.open()
    endpoint.close()
    with pytest.raises(RewardContractError, match="is not open"):
        endpoint.ask(calls())


def test_closing_while_it_is_asked(server: FakeJudgeServer, configured: Configured, calls: Calls) -> None:
    """Whoever asks is told, in every thread, and the close waits for them."""
    endpoint = JudgeEndpoint(configured(), "content")
    endpoint.open()
    server.hold()
    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(endpoint.ask, calls(4)) for _ in range(3)]
        server.wait_for(12)
        endpoint.close()
        assert _ours() == []
        for each in asked:
            with pytest.raises(RewardContractError, match="was closed while it was asked"):
                each.result()


def test_an_interrupt_cancels_the_calls_and_passes_through(
    server: FakeJudgeServer, opened: Opened, calls: Calls
) -> None:
    """Ctrl-C while all calls are held: KeyboardInterrupt at once, and the endpoint can be asked again."""
    endpoint = opened(concurrency=8)
    server.hold()

    def interrupt() -> None:
        server.wait_for(8)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        endpoint.ask(calls(64))
    thread.join()
    server.release()
    assert len(server.requests) == 8
    assert endpoint.ask(calls())[0].value == 0.5


def test_a_fork_does_not_carry_it(
    server: FakeJudgeServer, opened: Opened, configured: Configured, calls: Calls
) -> None:
    """The child is told to open its own, which works; the parent's goes on."""
    endpoint = opened()
    endpoint.ask(calls())
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = ["nothing"]
        try:
            try:
                endpoint.ask(calls())
            except RewardContractError as error:
                said = [error.message]
            endpoint.close()
            mine = JudgeEndpoint(configured(), "content")
            mine.open()
            said.append(str(mine.ask(calls())[0].value))
            mine.close()
        finally:
            os.write(writing, "|".join(said).encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        told, _, value = pipe.read().partition("|")
    os.waitpid(child, 0)
    assert "was opened in another process" in told
    assert value == "0.5"
    assert endpoint.ask(calls())[0].value == 0.5
    assert len(server.requests) == 3


PROGRAM = """
import sys, threading
from posttrain.errors import RewardContractError
from posttrain.judges.config import JudgeConfig
from posttrain.judges.endpoint import JudgeCall, JudgeEndpoint

endpoint = JudgeEndpoint(JudgeConfig(model="m", revision="1", base_url=sys.argv[1]), "content")
endpoint.open()
call = JudgeCall(messages=({"role": "user", "content": "hello"},), parse=str, key="it")
endpoint.ask([call])


def ask():
    try:
        endpoint.ask([call])
    except RewardContractError:
        pass


if sys.argv[2] == "busy":
    threading.Thread(target=ask, daemon=True).start()
    sys.stdin.readline()
"""


@pytest.mark.parametrize("state", ["idle", "busy"])
def test_a_process_that_forgets_to_close_ends_cleanly(server: FakeJudgeServer, state: str) -> None:
    """No warning, no hang, exit code 0; also while a daemon thread still asks."""
    server.script("{}", JudgeReply(content="{}", delay_s=600.0))
    process = subprocess.Popen(
        [sys.executable, "-X", "dev", "-c", PROGRAM, server.base_url, state],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if state == "busy":
        server.wait_for(2)
    out, err = process.communicate("go on\n", timeout=60)
    assert (process.returncode, out, err) == (0, "", "")


def test_what_the_machine_lacks_is_told_at_once(
    configured: Configured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: FakeJudgeServer
) -> None:
    """The variable and the folder of the cache in one error, without a call."""
    monkeypatch.delenv("MY_KEY", raising=False)
    lost = tmp_path / "lost" / "answers"
    with pytest.raises(RewardConfigError, match="this machine lacks what the judge needs") as caught:
        JudgeEndpoint(configured(credential="MY_KEY", cache=str(lost)), "content").check_machine()
    assert [line.strip() for line in caught.value.message.splitlines()[1:]] == [
        "the judge's key: environment variable MY_KEY is not set; export it where this runs",
        f"judge cache {lost}: its folder {lost.parent} does not exist",
    ]
    monkeypatch.setenv("MY_KEY", "x")
    JudgeEndpoint(configured(credential="MY_KEY", cache=str(tmp_path / "answers")), "content").check_machine()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "answers").write_bytes(b"not a database, but longer than a header" * 10)
    with pytest.raises(RewardConfigError, match="can't be read"):
        JudgeEndpoint(configured(cache=str(tmp_path / "answers")), "content").check_machine()
    assert server.requests == []


def test_what_it_asks_of_the_service(configured: Configured, server: FakeJudgeServer) -> None:
    """The calls of one process at its URL, and the cautions of the config."""
    endpoint = JudgeEndpoint(configured(model="gpt-4o", concurrency=3), "content")
    assert endpoint.calls_at_once() == {f"{server.base_url} (gpt-4o)": 3}
    assert "names no snapshot" in endpoint.cautions()[0]


def test_a_missing_client_is_one_line(fresh_python: Callable[[str], str]) -> None:
    """Without aiohttp the package imports, and opening says what to install."""
    program = (
        "import sys\n"
        "sys.modules['aiohttp'] = None\n"
        "from posttrain.judges.config import JudgeConfig\n"
        "from posttrain.judges.endpoint import JudgeEndpoint\n"
        "endpoint = JudgeEndpoint(JudgeConfig(model='m', revision='1', preset='vllm'), 'content')\n"
        "try:\n    endpoint.open()\nexcept Exception as error:\n    print(type(error).__name__, error)\n"
    )
    assert fresh_python(program).strip() == 'RewardConfigError judges need aiohttp: pip install "posttrain[judge]"'
