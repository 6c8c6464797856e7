# SPDX-License-Identifier: Apache-2.0
"""An interrupt comes through at once and leaves the evaluator usable."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest

from execution.ray.batches import batch, calls, is_alive, until
from execution.ray.conftest import Pool


def test_an_interrupt_ends_the_call_and_nothing_else(pool: Pool, tmp_path: Path) -> None:
    """Ctrl-C while a group takes long: nothing is written, its actor is ended, the next batch is scored."""
    worker = pool(num_cpus=0.1)
    trajectories = batch([{"do": "sleep", "seconds": 600, "folder": str(tmp_path)}, {}])

    def interrupt() -> None:
        until(lambda: calls(tmp_path, "g0"))
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        worker.score(trajectories)
    thread.join(30)
    assert all(each.reward == {} and each.advantage is None for each in trajectories)
    until(lambda: not is_alive(calls(tmp_path, "g0")[0]))
    fresh = batch([{}] * 3)
    worker.score(fresh)
    assert all("final" in each.reward for each in fresh)
