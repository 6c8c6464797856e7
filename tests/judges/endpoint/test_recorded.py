# SPDX-License-Identifier: Apache-2.0
"""Asking with a cache: paid once, replayed as it was, resumed after a crash."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

import pytest

from posttrain.errors import RewardUnavailableError
from posttrain.judges.cache import AnswerCache
from posttrain.judges.endpoint import JudgeCall, JudgeEndpoint, JudgeReplyError
from posttrain.testing import FakeJudgeServer, JudgeReply, JudgeRequest

Opened: TypeAlias = Callable[..., JudgeEndpoint]
Calls: TypeAlias = Callable[..., list[JudgeCall[float]]]


@pytest.fixture
def cache(tmp_path: Path) -> str:
    """Where answers are recorded."""
    return str(tmp_path / "answers.sqlite")


@pytest.fixture
def counting() -> Callable[[JudgeRequest], str]:
    """Replies that are all different, so that a new answer can be told from a recorded one."""
    numbers = itertools.count()
    return lambda request: json.dumps({"score": next(numbers)})


def test_what_is_recorded_is_not_asked_again(server: FakeJudgeServer, opened: Opened, calls: Calls, cache: str) -> None:
    """The second time, in another endpoint, nothing is sent and the values are the same."""
    first = opened(cache=cache).ask(calls(5))
    again = opened(cache=cache).ask(calls(7))
    assert [each.cached for each in first] == [False] * 5
    assert [each.cached for each in again] == [True] * 5 + [False] * 2
    assert [each.value for each in again] == [0.5] * 7
    assert {(each.calls, each.prompt_tokens, each.cost, each.seconds) for each in again[:5]} == {(0, 0, 0.0, 0.0)}
    assert len(server.requests) == 7


def test_what_changes_a_request_or_the_judge_is_asked_anew(
    server: FakeJudgeServer, opened: Opened, calls: Calls, cache: str
) -> None:
    """Other content of the judge, another sample, temperature or model share no answer; limits and timeouts do."""
    opened(cache=cache).ask(calls())
    opened("other content", cache=cache).ask(calls())
    opened(cache=cache, temperature=1.0).ask(calls())
    opened(cache=cache, model="other").ask(calls())
    opened(cache=cache).ask(calls(1, sample=1))
    assert len(server.requests) == 5
    (answer,) = opened(cache=cache, total_timeout_s=1.0, concurrency=1, max_retries=0).ask(calls())
    assert answer.cached
    assert len(server.requests) == 5


def test_only_what_could_be_parsed_is_recorded(
    server: FakeJudgeServer, opened: Opened, calls: Calls, cache: str
) -> None:
    """A bad reply leaves nothing behind, so the next run asks again; what was good beside it is kept."""
    server.script(*[JudgeReply(content="no")] * 3)
    endpoint = opened(cache=cache, max_retries=2)
    with pytest.raises(RewardUnavailableError, match="unparsable"):
        endpoint.ask(calls())
    assert endpoint.ask(calls())[0].calls == 1


def test_what_came_before_a_failure_is_recorded(
    server: FakeJudgeServer, opened: Opened, calls: Calls, cache: str
) -> None:
    """Nine answers, then a failure: the next ask sends one request."""
    server.script(*['{"score": 0.25}'] * 9, JudgeReply(content="no", delay_s=0.3))
    endpoint = opened(cache=cache, max_retries=0)
    with pytest.raises(RewardUnavailableError, match="unparsable"):
        endpoint.ask(calls(10))
    assert [each.cached for each in endpoint.ask(calls(10))].count(False) == 1
    assert len(server.requests) == 11


def test_equal_questions_are_one(
    server: FakeJudgeServer, opened: Opened, calls: Calls, cache: str, counting: Callable[[JudgeRequest], str]
) -> None:
    """With a cache, two equal calls of an ask get one answer, since a replay would give both the same."""
    server.script(*[counting] * 10)
    same = calls(1) * 3
    first = opened(cache=cache).ask([*same, *calls(1, sample=1)])
    assert [each.value for each in first][:3] == [first[0].value] * 3
    assert [each.cached for each in first] == [False, True, True, False]
    assert len(server.requests) == 2
    assert [each.value for each in opened(cache=cache).ask(same)] == [first[0].value] * 3


def test_the_answer_recorded_first_holds(
    server: FakeJudgeServer, opened: Opened, calls: Calls, cache: str, counting: Callable[[JudgeRequest], str]
) -> None:
    """Eight threads ask the same at once and get different replies: all take the one that a replay will give."""
    server.script(*[counting] * 8)
    server.hold()
    endpoint = opened(cache=cache)
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(endpoint.ask, calls()) for _ in range(8)]
        server.wait_for(8)
        server.release()
        values = {each.result()[0].value for each in asked}
    assert len(values) == 1
    assert endpoint.ask(calls())[0].value in values
    assert len(server.requests) == 8


def test_a_recorded_answer_that_no_longer_parses_is_asked_anew(
    server: FakeJudgeServer, opened: Opened, calls: Calls, cache: str
) -> None:
    """A parser that has become stricter replaces what it can't read, and only that."""

    def strict(text: str) -> float:
        if json.loads(text)["score"] != 1:
            raise JudgeReplyError("off_scale", text)
        return 1.0

    endpoint = opened(cache=cache)
    endpoint.ask(calls(2))
    server.script('{"score": 1}', '{"score": 1}')
    assert [each.value for each in endpoint.ask(calls(2, parse=strict))] == [1.0, 1.0]
    assert [each.cached for each in endpoint.ask(calls(2, parse=strict))] == [True, True]


def test_a_probe_is_no_recorded_answer(server: FakeJudgeServer, opened: Opened, cache: str) -> None:
    """It is asked each time, and recorded never."""
    endpoint = opened(cache=cache)
    endpoint.probe()
    endpoint.probe()
    assert len(server.requests) == 2


def test_no_key_is_recorded(
    server: FakeJudgeServer, opened: Opened, calls: Calls, cache: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file holds prompts and answers, and not the key."""
    monkeypatch.setenv("MY_KEY", "hunter2-hunter2-hunter2")
    endpoint = opened(cache=cache, credential="MY_KEY")
    endpoint.ask(calls())
    for file in Path(cache).parent.iterdir():
        assert b"hunter2" not in file.read_bytes()
    opened_cache = AnswerCache(cache)
    opened_cache.open()
    (row,) = opened_cache
    opened_cache.close()
    assert json.loads(row.request) == server.requests[0].body
    assert (row.answer, row.prompt_tokens, row.completion_tokens) == ('{"score": 0.5}', 10, 5)


PROGRAM = """
import json, sys
from posttrain.judges.config import JudgeConfig
from posttrain.judges.endpoint import JudgeCall, JudgeEndpoint

url, cache = sys.argv[1:]
endpoint = JudgeEndpoint(JudgeConfig(model="m", revision="1", base_url=url, cache=cache, concurrency=4), "content")
endpoint.open()
endpoint.ask([
    JudgeCall(messages=({"role": "user", "content": f"question {number}"},), parse=json.loads, key=str(number))
    for number in range(40)
])
endpoint.close()
print("done")
"""


def test_a_killed_run_is_resumed(server: FakeJudgeServer, cache: str) -> None:
    """SIGKILL in the middle: the second run asks what is missing, and no answered question twice."""
    # 20 replies come, then the server is silent.
    server.script(*["1"] * 20, *[JudgeReply(content="1", delay_s=600.0)] * 4)
    command = [sys.executable, "-c", PROGRAM, server.base_url, cache]
    process = subprocess.Popen(command)
    try:
        server.wait_for(24)
        recorded = AnswerCache(cache)
        recorded.open()
        # All that were answered before the silence are recorded without waiting for the rest of the ask.
        for _ in range(1000):
            if len(recorded) == 20:
                break
            signal.sigtimedwait([], 0.01)
        assert len(recorded) == 20
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "done\n"
    assert len(recorded) == 40
    recorded.close()
    asked = [request.text for request in server.requests]
    assert len(asked) == 44
    assert all(asked.count(text) == 1 for text in asked[:20])
    assert set(asked[24:]) == {f"question {number}" for number in range(40)} - set(asked[:20])
