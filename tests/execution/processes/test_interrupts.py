# SPDX-License-Identifier: Apache-2.0
"""A KeyboardInterrupt before any line of ours: the evaluator goes on, and no process is left behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from interrupting import interrupt_at
from posttrain.execution import ProcessEvaluator, processes
from posttrain.rewards import RewardWorker

Workers = Callable[..., RewardWorker]


@pytest.mark.slow
def test_an_interrupt_anywhere_in_a_batch_does_no_harm(worker_of: Workers, batch_of: Any) -> None:
    """Before every twenty-ninth line: the batch is as it was or whole, and the next one is scored on a whole pool."""
    worker = worker_of()
    groups = {f"g{index}": [1.0, 0.0] for index in range(6)}
    evaluator = worker.stage.evaluator
    assert isinstance(evaluator, ProcessEvaluator)
    worker.score(batch_of(groups))
    line, came = 1, True
    while came:
        batch = batch_of(groups)
        came = interrupt_at(processes, lambda batch=batch: worker.score(batch), line)  # type: ignore[misc]  # bound early
        states = {repr((each.reward, each.advantage)) for each in batch}
        assert came is ("({}, None)" in states)
        worker.score(batch)
        assert [each.reward["final"] for each in batch] == [1.0, 0.0] * 6
        assert len(evaluator.pids) == 2
        line += 29
    assert line > 100


@pytest.mark.slow
# A socket that was made and not yet noted when the interrupt came is closed by its own destructor.
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_an_interrupt_anywhere_in_opening_and_closing_leaves_nothing(worker_of: Workers, batch_of: Any) -> None:
    """Before every seventy-first line of a whole life: closing again ends every process."""
    worker = worker_of()
    batch = batch_of({"g": [1.0, 0.0]})

    def live() -> None:
        worker.score(batch)
        worker.close()

    line, came = 1, True
    while came:
        came = interrupt_at(processes, live, line)
        worker.close()
        assert isinstance(worker.stage.evaluator, ProcessEvaluator)
        assert worker.stage.evaluator.pids == ()
        line += 71
    worker.score(batch)
