# SPDX-License-Identifier: Apache-2.0
"""A scorer's process: what can go wrong in it ends the process, never the caller, and never as a score."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic

import numpy as np
import pytest

from posttrain.errors import RewardConfigError
from posttrain.service.scorers.call import ScoreCall
from posttrain.service.scorers.process import ScorerProcess
from posttrain.service.scorers.spec import ScorerSpec
from posttrain.service.work.worker import WorkerLostError
from service.driving import children_of

Asked = Callable[[str], ScoreCall]


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    """A call for one image, in the mood that its prompt says."""
    path = tmp_path / "image.npy"
    np.save(path, np.full((1, 2, 2, 3), 51, np.uint8))
    return lambda mood: ScoreCall(path=str(path), reward="moody", prompts=(mood,))


@pytest.fixture
def moody(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScorerProcess]:
    """The process of `my_scorers:moody`, within 256 MiB."""
    monkeypatch.chdir(workplace)
    process = ScorerProcess(ScorerSpec("moody", "image", "my_scorers:moody"), start_timeout_s=60, memory_limit_mib=256)
    yield process
    process.close()
    process.release()


def _children() -> set[int]:
    return children_of(os.getpid())


def test_a_process_scores_again_and_again(moody: ScorerProcess, asked: Asked) -> None:
    """It is started with the first batch and kept for the next; what it prints does not get in between."""
    assert moody.score(asked("calm"), timeout_s=60).scores == {"moody": [0.25]}
    first = _children()
    assert moody.score(asked("print"), timeout_s=60).scores == {"moody": [0.25]}
    assert moody.score(asked("series"), timeout_s=60).scores == {"a": [1.0], "b": [2.5]}
    assert _children() == first


@pytest.mark.parametrize(
    ("mood", "cause", "text"),
    [
        ("hang", "timeout", "did not answer within 1 s while it scored"),
        ("die", "died", "was killed by SIGKILL while it scored"),
        ("segfault", "died", "was killed by SIGSEGV while it scored"),
        ("exit", "died", "ended with exit code 0 while it scored"),
        ("grow", "memory", "MiB of memory, above the limit of 256 MiB while it scored"),
    ],
)
def test_a_lost_process_is_replaced(moody: ScorerProcess, asked: Asked, mood: str, cause: str, text: str) -> None:
    """The batch fails with how it was lost, nothing of it stays, and the next batch is scored by a new one."""
    before = _children()
    with pytest.raises(WorkerLostError, match=text) as caught:
        moody.score(asked(mood), timeout_s=1 if mood == "hang" else 60)
    assert caught.value.cause == cause
    assert _children() == before
    assert moody.score(asked("calm"), timeout_s=60).scores == {"moody": [0.25]}


def test_a_hang_says_where(moody: ScorerProcess, asked: Asked) -> None:
    """The line of the function at which the process hung is in the error."""
    moody.start()
    with pytest.raises(WorkerLostError, match=r"it printed last: .*my_scorers\.py"):
        moody.score(asked("hang"), timeout_s=0.5)


def test_a_function_that_can_not_be_loaded_is_told_at_the_start(
    workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No process is left, and a batch fails in the same words."""
    monkeypatch.chdir(workplace)
    before = _children()
    process = ScorerProcess(ScorerSpec("x", "image", "my_scorers:nothing"), start_timeout_s=60, memory_limit_mib=None)
    with pytest.raises(RewardConfigError, match="module 'my_scorers' has no attribute 'nothing'"):
        process.start()
    with pytest.raises(WorkerLostError, match=r"can't be started: .*no attribute 'nothing'") as caught:
        process.score(ScoreCall(path="", reward="x"), timeout_s=1)
    assert caught.value.cause == "start"
    assert _children() == before


def test_a_module_that_hangs_at_import_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start has a bound of its own."""
    (tmp_path / "hanging.py").write_text("import time\ntime.sleep(600)\n")
    monkeypatch.chdir(tmp_path)
    process = ScorerProcess(ScorerSpec("x", "image", "hanging:f"), start_timeout_s=1, memory_limit_mib=None)
    with pytest.raises(WorkerLostError, match="did not answer within 1 s while it was loaded"):
        process.start()


def test_closing_ends_a_call_in_another_thread(moody: ScorerProcess, asked: Asked) -> None:
    """The caller gets an error at once, and no further call starts a process."""
    moody.start()
    failures: list[Exception] = []

    def call() -> None:
        try:
            moody.score(asked("hang"), timeout_s=600)
        except WorkerLostError as error:
            failures.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    started = monotonic()
    moody.close()
    thread.join(30)
    assert not thread.is_alive()
    assert monotonic() - started < 30
    assert len(failures) == 1
    with pytest.raises(WorkerLostError, match="it is closed"):
        moody.score(asked("calm"), timeout_s=1)


def test_no_zombie_is_left(moody: ScorerProcess, asked: Asked) -> None:
    """After the end there is no child to wait for."""
    before = _children()
    moody.score(asked("calm"), timeout_s=60)
    moody.close()
    moody.release()
    assert _children() == before
    if not before:
        with pytest.raises(ChildProcessError, match="No child"):
            os.waitpid(-1, os.WNOHANG)
