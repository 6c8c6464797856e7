# SPDX-License-Identifier: Apache-2.0
"""The life of workers: opened and closed once each, shared by threads, gone with the driver, quiet about secrets."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from execution.processes.conftest import children
from posttrain.execution import ProcessEvaluator
from posttrain.rewards import RewardContractError, RewardUnavailableError, RewardWorker

Workers = Callable[..., RewardWorker]


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where providers write down that they are opened and closed."""
    monkeypatch.setenv("LIFE", str(tmp_path / "life"))
    return tmp_path / "life"


def test_managed_providers_are_opened_and_closed_once_a_worker(worker_of: Workers, batch_of: Any, life: Path) -> None:
    """However many batches there are; and again after the worker was closed and scores once more."""
    worker = worker_of("living")
    batch = batch_of({f"g{index}": [1.0, 0.0] for index in range(6)})
    for _ in range(3):
        worker.score(batch)
    pids = {int(each.reward["pid"]) for each in batch}
    worker.close()
    worker.close()
    told = Counter(life.read_text().split("\n")[:-1])
    assert len(told) == 4
    assert set(told.values()) == {1}
    assert {f"{what} {pid}" for what in ("open", "close") for pid in pids} <= set(told)
    worker.score(batch)
    assert len(life.read_text().splitlines()) == 6


def test_a_provider_that_fails_to_close_is_told_and_all_workers_end(
    worker_of: Workers, batch_of: Any, life: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names it, as in process."""
    monkeypatch.setenv("CLOSING", "fails")
    worker = worker_of("living")
    worker.score(batch_of({"g": [1.0, 0.0]}))
    with pytest.raises(RewardContractError, match="provider 'living': raised OSError: the pool can't be closed"):
        worker.close()
    assert isinstance(worker.stage.evaluator, ProcessEvaluator)
    assert worker.stage.evaluator.pids == ()


@pytest.mark.slow
def test_a_provider_that_never_closes_is_killed(
    worker_of: Workers, batch_of: Any, life: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Closing has a bound, and says what it had to do."""
    monkeypatch.setenv("CLOSING", "hangs")
    worker = worker_of("living", pool={"workers": 1, "start_timeout_s": 3})
    worker.score(batch_of({"g": [1.0, 0.0]}))
    began = time.monotonic()
    worker.close()
    assert time.monotonic() - began < 60
    assert "reward worker 1 did not close its providers within 3 s and is killed" in caplog.text


def test_threads_share_the_workers(worker_of: Workers, batch_of: Any) -> None:
    """Four threads score on two workers at once; each gets its own results, and none waits for ever."""
    worker = worker_of()

    def score(number: int) -> list[float]:
        batch = batch_of({f"{number}-{index}": [float(number), 0.0] for index in range(20)})
        for _ in range(5):
            worker.score(batch)
        return [each.reward["final"] for each in batch]

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(score, range(1, 5)))
    assert found == [[float(number), 0.0] * 20 for number in range(1, 5)]
    assert isinstance(worker.stage.evaluator, ProcessEvaluator)
    assert worker.stage.evaluator.restarts == 0


def test_a_thread_that_ends_takes_no_worker_with_it(worker_of: Workers, batch_of: Any, marks: Any) -> None:
    """A replacement that a short-lived thread started lives on after that thread."""
    worker = worker_of(pool={"workers": 1}, on_unavailable="drop_group", max_dropped_fraction=0.9)
    bad = batch_of({"g0": ["kill", 1.0], "g1": [1.0, 0.0]})
    thread = threading.Thread(target=worker.compute, args=(bad,))
    thread.start()
    thread.join()
    evaluator = worker.stage.evaluator
    assert isinstance(evaluator, ProcessEvaluator)
    before = evaluator.pids
    worker.score(batch_of({"g": [1.0, 0.0]}))
    assert evaluator.pids == before
    assert evaluator.restarts == 1


def test_closing_gives_up_what_another_thread_evaluates(worker_of: Workers, batch_of: Any, marks: Any) -> None:
    """The other thread gets an error that says so, soon."""
    worker = worker_of()
    with ThreadPoolExecutor(1) as threads:
        future = threads.submit(worker.compute, batch_of({"g0": ["sleep", 1.0], "g1": [1.0, 0.0]}))
        marks("sleep-g0-0")
        worker.close()
        with pytest.raises(RewardUnavailableError, match="closed while groups were evaluated"):
            future.result(30)


def test_an_interrupt_ends_the_call_and_leaves_the_evaluator_usable(
    worker_of: Workers, batch_of: Any, marks: Any
) -> None:
    """Ctrl-C in the middle of a group that hangs comes through at once; the next batch is scored."""
    worker = worker_of()

    def interrupt() -> None:
        marks("sleep-g0-0")
        os.kill(os.getpid(), signal.SIGINT)

    killer = threading.Thread(target=interrupt)
    killer.start()
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        worker.score(batch_of({"g0": ["sleep", 1.0], "g1": [1.0, 0.0]}))
    killer.join()
    batch = batch_of({f"g{index}": [1.0, 0.0] for index in range(4)})
    worker.score(batch)
    assert [each.reward["final"] for each in batch] == [1.0, 0.0] * 4


DRIVER = """
import os, sys, threading
from execution.processes.conftest import CATALOG
from posttrain.execution import ProcessEvaluator
from posttrain.rewards import RewardWorker
from posttrain.schema import Observation, Trajectory

def score():
    batch = [
        Trajectory(trajectory_id=f"{g}/{i}", group_id=g, obs=Observation(id=g, prompt="p"), completion=text)
        for g, texts in {"g0": ['"spin"', "1.0"], "g1": ['"ignore signals"', "1.0"]}.items()
        for i, text in enumerate(texts)
    ]
    evaluator = ProcessEvaluator(workers=2)
    worker = RewardWorker(catalog=CATALOG, reward="obey", group_size=2, evaluator=evaluator)
    worker.score(batch)

if sys.argv[1] == "main":
    score()
else:
    thread = threading.Thread(target=score)
    thread.start()
    thread.join()
"""


@pytest.mark.parametrize("where", ["main", "thread"])
def test_workers_end_with_a_driver_that_is_killed(marks: Any, is_gone: Callable[[int], bool], where: str) -> None:
    """SIGKILL of the driver leaves no worker, not even one in an endless loop in C or one that ignores signals."""
    path = os.pathsep.join(sys.path)
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, where], env={**os.environ, "PYTHONPATH": path})
    pids = [marks("spin-g0-0"), marks("ignore signals-g1-0")]
    driver.kill()
    driver.wait()
    assert all(map(is_gone, pids))


def test_what_a_worker_prints_is_logged_and_corrupts_nothing(
    worker_of: Workers, batch_of: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Prints on both streams, raw bytes and forged messages too, become lines under the worker's name."""
    batch = batch_of({f"g{index}": ["print", 1.0] for index in range(4)})
    with caplog.at_level(logging.WARNING, "posttrain.execution.processes"):
        worker = worker_of()
        worker.score(batch)
        worker.close()
    assert [each.reward["final"] for each in batch] == [0.5, 1.0] * 4
    lines = [record.getMessage() for record in caplog.records]
    assert sum("to standard output" in line for line in lines) == 12
    assert all(line.startswith(("reward worker 1: ", "reward worker 2: ")) for line in lines)


def test_a_secret_that_a_worker_prints_is_masked(
    worker_of: Workers, batch_of: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What died may have printed a credential: neither log nor error shows it, nor does the command line."""
    monkeypatch.setenv("JUDGE_API_KEY", "sk-very-secret-4711")
    worker = worker_of(pool={"workers": 1})
    worker.stage.open()
    (pid,) = children() & set(getattr(worker.stage.evaluator, "pids"))  # noqa: B009  # of the process evaluator alone
    assert b"4711" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    with pytest.raises(RewardUnavailableError, match="using <JUDGE_API_KEY>") as caught:
        worker.score(batch_of({"g": ["print secret", 1.0]}))
    assert "4711" not in str(caught.value) + caplog.text + repr(worker) + repr(worker.stage.evaluator)
