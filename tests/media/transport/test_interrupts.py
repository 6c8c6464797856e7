# SPDX-License-Identifier: Apache-2.0
"""An interrupt before any line of the transport leaves no process, no descriptor and no request running on."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import posttrain.media.transport
from interrupting import interrupt_at
from posttrain.media.transport import CurlTransport, Post
from posttrain.testing.reward_service import FakeRewardService
from reward_service_faults import children

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks at processes through /proc")


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # names are enough


def test_an_interrupt_before_any_line_leaves_nothing(post_to: Callable[..., Post]) -> None:
    """Line by line until a request ends without one: whatever was started is ended, reaped and closed."""
    transport = CurlTransport()
    line, came = 0, True
    # An interrupt just after the start loses the process: it ends by itself, since its request is not written to it,
    # and its pipes are closed with a warning.
    with FakeRewardService() as service, warnings.catch_warnings(action="ignore", category=ResourceWarning):
        request = post_to(service.pull_url)
        transport.post(request)
        service.wait_until(lambda fake: all(each.closed for each in fake.requests))
        before = children(), _descriptors()
        while came:
            line += 1
            came = interrupt_at(posttrain.media.transport, lambda: transport.post(request), line)
        gc.collect()
        transport.post(request)
        service.wait_until(lambda fake: all(each.closed for each in fake.requests))
        assert children() == before[0]
        # Between the making of a pipe and its having an owner an interrupt costs its two ends, and no more.
        assert _descriptors() <= before[1] + 2
    assert line > 60
