# SPDX-License-Identifier: Apache-2.0
"""`ManualClock`: time that moves when a test says so."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.testing import ManualClock


def test_it_stands_still() -> None:
    """Nothing moves it but a sleep or an advance."""
    clock = ManualClock()
    assert [clock.monotonic() for _ in range(3)] == [0.0, 0.0, 0.0]
    assert ManualClock(5.0).monotonic() == 5.0


def test_sleeping_and_advancing() -> None:
    """Both move it at once; only what was slept is remembered."""
    clock = ManualClock(1.0)
    clock.sleep(0.5)
    clock.advance(2.0)
    clock.sleep(0.0)
    assert clock.monotonic() == 3.5
    assert clock.slept == [0.5, 0.0]
    assert repr(clock) == "ManualClock(now=3.5)"


@pytest.mark.parametrize("seconds", [-1e-9, -1.0, float("nan"), float("-inf")])
def test_time_does_not_go_back(seconds: float) -> None:
    """A negative duration, or none at all, is refused and changes nothing, as `time.sleep` refuses it."""
    clock = ManualClock(1.0)
    for move in (clock.sleep, clock.advance):
        with pytest.raises(ValueError, match="time only moves forward"):
            move(seconds)
    assert clock.monotonic() == 1.0
    assert clock.slept == []


@given(st.lists(st.integers(0, 1000)))
def test_durations_add_up(seconds: list[int]) -> None:
    """It stands at the sum of all that was slept."""
    clock = ManualClock()
    for each in seconds:
        clock.sleep(each)
    assert clock.monotonic() == sum(seconds)
    assert clock.slept == seconds


def test_it_is_shared_between_threads() -> None:
    """No step of any thread is lost."""
    clock = ManualClock()

    def work() -> None:
        for _ in range(2000):
            clock.sleep(1.0)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert clock.monotonic() == len(clock.slept) == 8000
