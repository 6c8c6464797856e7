# SPDX-License-Identifier: Apache-2.0
"""How long to wait before asking again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from posttrain.errors import RewardUnavailableError
from posttrain.judges.config import JudgeConfig
from posttrain.judges.endpoint import JudgeCall, JudgeEndpoint
from posttrain.judges.endpoint.retry import Backoff, is_retried, retry_after
from posttrain.testing import FakeJudgeServer, JudgeReply

Opened: TypeAlias = Callable[..., JudgeEndpoint]
Calls: TypeAlias = Callable[..., list[JudgeCall[float]]]

NOON = 784_893_600.0  # Tue, 15 Nov 1994 10:00:00 GMT


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("0", 0.0),
        ("7", 7.0),
        (" 1.5 ", 1.5),
        ("-3", 0.0),
        ("Tue, 15 Nov 1994 10:00:30 GMT", 30.0),
        ("Tue, 15 Nov 1994 09:00:00 GMT", 0.0),
        ("Tuesday, 15-Nov-94 10:00:30 GMT", 30.0),
        ("Tue Nov 15 10:00:30 1994", 30.0),
        ("soon", None),
        ("", None),
        ("nan", None),
        ("inf", None),
        ("Tue, 99 Nov 1994 10:00:30 GMT", None),
        (None, None),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_retry_after(
    header: str | None,
    seconds: float | None,
    zone: str,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """Seconds or an HTTP date in any of its three forms, never below zero; what can't be read asks for nothing."""
    request.addfinalizer(time.tzset)
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    assert retry_after(header, now=lambda: NOON) == seconds


def test_which_statuses_are_asked_again() -> None:
    """408, 409, 429 and all from 500 on."""
    asked = [status for status in range(200, 600) if is_retried(status)]
    assert asked == [408, 409, 429, *range(500, 600)]


def _config(**fields: Any) -> JudgeConfig:
    return JudgeConfig(**{"model": "m", "revision": "1", "preset": "vllm", **fields})


@pytest.mark.parametrize(("draw", "expected"), [(0.0, [0.25, 0.5, 1.0, 2.0, 2.0]), (1.0, [0.5, 1.0, 2.0, 4.0, 4.0])])
def test_backoff_doubles_up_to_its_cap(draw: float, expected: list[float]) -> None:
    """From base 0.5 to cap 4, between half of the wait and the whole of it."""
    backoff = Backoff(_config(backoff_base_s=0.5, backoff_cap_s=4.0), lambda: draw)
    assert [backoff.wait(retry) for retry in (1, 2, 3, 4, 5)] == expected
    assert backoff.wait(10_000) == expected[-1]


def test_what_the_endpoint_asks_for_is_kept() -> None:
    """Never less than it asked for, whatever the cap; at most a base more, so that not all come back at once."""
    draws = iter([0.0, 0.0, 1.0, 1.0])
    backoff = Backoff(_config(backoff_base_s=0.5, backoff_cap_s=4.0), lambda: next(draws))
    assert [backoff.wait(1, 60.0), backoff.wait(1, 60.0)] == [60.0, 60.5]
    assert Backoff(_config(backoff_base_s=8.0), lambda: 1.0).wait(1, 0.0) == 8.0


def test_retry_after_is_waited_for(server: FakeJudgeServer, opened: Opened, calls: Calls) -> None:
    """The server sees the next request no earlier than it asked."""
    server.script(JudgeReply.error(429, retry_after="0.3"))
    (answer,) = opened().ask(calls())
    first, second = server.requests
    assert second.at - first.at >= 0.3
    assert answer.seconds >= 0.3


def test_a_wait_past_the_deadline_is_not_begun(server: FakeJudgeServer, opened: Opened, calls: Calls) -> None:
    """An hour is asked for and ten seconds are left: it fails at once, and says why."""
    server.script(JudgeReply.error(429, retry_after="3600"))
    with pytest.raises(RewardUnavailableError, match="after the deadline of 10 s, the endpoint asked for 3600 s"):
        opened(total_timeout_s=10.0).ask(calls())
    assert len(server.requests) == 1
