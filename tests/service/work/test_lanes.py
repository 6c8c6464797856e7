# SPDX-License-Identifier: Apache-2.0
"""The queue when something of our own breaks."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from posttrain.service.protocol.request_line import parse_line
from posttrain.service.scorers.call import ScoreCall, ScoreReply
from posttrain.service.scorers.spec import BUILT_IN_SCORERS
from posttrain.service.store.memory import MemoryStore
from posttrain.service.web.metrics import ServiceMetrics
from posttrain.service.work.lanes import Job, Lanes
from posttrain.service.work.spool import Spool


class Faulty:
    """A worker with a fault that nobody foresaw."""

    released = 0

    def start(self) -> None:
        """Nothing is to be started."""

    def score(self, call: ScoreCall, *, timeout_s: float) -> ScoreReply:
        """Fail."""
        raise ZeroDivisionError(f"{call.reward} within {timeout_s:g} s")

    def close(self) -> None:
        """Nothing runs."""

    def release(self) -> None:
        """Count it."""
        self.released += 1


def test_a_lane_that_breaks_is_told_and_lets_go(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With its trace in the log; the service is told to end, and the end lets go of every worker."""
    workers: list[Faulty] = []

    def worker(_: str) -> Faulty:
        workers.append(Faulty())
        return workers[-1]

    async def run() -> None:
        spool, broken = Spool(tmp_path, limit=1000), asyncio.Event()
        lanes = Lanes(
            {"brightness": None, "contrast": None},
            worker,
            store=MemoryStore(ttl_s=9, most=9),
            metrics=ServiceMetrics(),
            most=1,
            timeout_s=7,
            broken=broken.set,
            masked=str,
        )
        line = parse_line(
            b'{"media_type":"image","reward_fn":{"brightness":1}}', (1, 1, 1, 3), BUILT_IN_SCORERS, max_samples=1
        )
        file = spool.reserve(10)
        assert file is not None
        assert lanes.reserve(1)
        lanes.submit(Job("u", line, (1, 1, 1, 3), file))
        await asyncio.wait_for(broken.wait(), 60)
        await lanes.stop()
        spool.close()

    asyncio.run(run())
    assert [each.released for each in workers] == [1, 1]
    assert "a lane broke" in caplog.text
    assert "ZeroDivisionError: brightness within 7 s" in caplog.text
