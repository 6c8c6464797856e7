# SPDX-License-Identifier: Apache-2.0
"""Worker processes give what the caller's own process gives: results, reports and errors alike."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import strategies
from execution.processes.conftest import CATALOG
from posttrain.errors import RewardError
from posttrain.execution import ProcessEvaluator
from posttrain.rewards import RewardReport, RewardWorker
from posttrain.schema import Observation, Trajectory

ROLLOUTS = Path(__file__).resolve().parents[4] / "shared" / "data" / "gsm8k" / "example_model_solutions.jsonl"


@st.composite
def batches(draw: st.DrawFn) -> list[Trajectory]:
    """One to five groups of two: any prompt and completion, verdict and count; sometimes an order to fail."""
    orders = st.one_of(
        strategies.finite_floats,
        st.sampled_from([0.0, 1.0, -0.0, 0.5]),
        st.sampled_from([0.0, 1.0, "unavailable", "busy", "contract", "refused"]),
    )
    batch = []
    for group in range(draw(st.integers(1, 5))):
        name = f"{draw(strategies.text)}{group}"
        prompt = draw(strategies.json_values.filter(lambda value: value is not None))
        for index in range(2):
            order = draw(orders)
            # White space changes the length, and with it what the other provider says.
            completion = f"{' ' * draw(st.integers(0, 3))}{json.dumps(order)}"
            batch.append(
                Trajectory(
                    trajectory_id=f"{name}/{index}",
                    group_id=name,
                    obs=Observation(id=name, prompt=prompt),
                    completion=completion,
                    policy_info={
                        "finish_reason": draw(st.sampled_from([None, "stop", "length", "\ud800"])),
                        "completion_token_count": draw(st.sampled_from([None, 0, 7, 2**70])),
                    },
                )
            )
    return batch


def _without_times(report: RewardReport) -> Any:
    plain = msgspec.to_builtins(report)
    for provider in plain["providers"].values():
        for key in ("seconds", "slowest_seconds", "slowest_group"):
            provider.pop(key)
    return repr(plain)


def _what_comes(worker: RewardWorker, batch: list[Trajectory]) -> Any:
    """Outcome and report to the bit, or the error with everything that it carries."""
    try:
        outcome = worker.compute(batch)
    except RewardError as error:
        carried = (error.provider, error.group_id, error.trajectory_id, error.cause_text, error.request)
        notes = getattr(error, "__notes__", [])
        return ascii((str(error), error.cause_type or "", carried, notes)).replace("BusyError", "")
    return ascii([msgspec.to_builtins(group) for group in outcome.groups]), _without_times(outcome.report)


@pytest.fixture(scope="module", params=["fail", "drop_group"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[RewardWorker, RewardWorker]]:
    """The same stage in process and on two workers."""
    stage: dict[str, Any] = {
        "catalog": CATALOG,
        "reward": ("rich", "obey"),
        "group_size": 2,
        "on_unavailable": request.param,
        "max_dropped_fraction": 0.9,
    }
    with RewardWorker(**stage) as here, RewardWorker(**stage, evaluator=ProcessEvaluator(workers=2)) as there:
        yield here, there


# The workers are the same for each example, on purpose: what one leaves behind would show in the next.
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batch=batches())
def test_any_batch_comes_out_the_same(pair: tuple[RewardWorker, RewardWorker], batch: list[Trajectory]) -> None:
    """Scores, advantages, diagnostics, drops and refusals are equal to the bit, timings apart."""
    here, there = pair
    assert _what_comes(there, batch) == _what_comes(here, batch)


def test_the_first_failure_in_order_is_raised(worker_of: Callable[..., RewardWorker], batch_of: Any) -> None:
    """Whichever worker is first, the error is that of the earliest group that ran."""
    worker = worker_of()
    for _ in range(5):
        with pytest.raises(RewardError, match="no such unit") as caught:
            worker.score(batch_of({"g0": ["contract", 1.0], "g1": ["contract", 1.0], "g2": [1.0, 1.0]}))
        assert caught.value.group_id == "g0"


def test_built_in_scorers_need_no_catalog() -> None:
    """Where every provider is built in there is no path to resolve."""
    batch = [
        Trajectory(trajectory_id=f"t{index}", group_id="g", obs=Observation(id="g", prompt="q"), completion=text)
        for index, text in enumerate(["", "x"])
    ]
    with RewardWorker(reward="nonempty", group_size=2, evaluator=ProcessEvaluator(workers=1)) as worker:
        worker.score(batch)
    assert [each.reward["final"] for each in batch] == [0.0, 1.0]


@pytest.mark.skipif(not ROLLOUTS.is_file(), reason="the GSM8K rollouts lie beside the checkout")
def test_gsm8k_rollouts_come_out_the_same() -> None:
    """The built-in scorer says the same of thousands of real solutions, wherever it runs."""
    here, there = _solutions(), _solutions()
    plain = RewardWorker(reward="gsm8k", group_size=4).score(here)
    with RewardWorker(reward="gsm8k", group_size=4, evaluator=ProcessEvaluator(workers=2)) as worker:
        spread = worker.score(there)
    assert plain.metrics() == spread.metrics()
    assert 0 < plain.metrics()["train/reward/final/mean"] < 1
    assert [(each.reward, each.advantage) for each in here] == [(each.reward, each.advantage) for each in there]


def _solutions() -> list[Trajectory]:
    batch = []
    for index, line in enumerate(ROLLOUTS.read_text(encoding="utf-8").splitlines()):
        row = json.loads(line)
        obs = Observation(id=f"q{index}", prompt=row["question"], reference=row["ground_truth"].replace("A: ", "#### "))
        for name, solution in row.items():
            if isinstance(solution, dict):
                text = solution["solution"].replace("A: ", "#### ")
                batch.append(Trajectory(trajectory_id=f"{name}-{index}", group_id=obs.id, obs=obs, completion=text))
    return batch
