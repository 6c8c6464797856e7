# SPDX-License-Identifier: Apache-2.0
"""What the stage reports of a batch, worked out by hand."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from posttrain.errors import RewardContractError, RewardUnavailableError
from posttrain.rewards import (
    MetricContribution,
    ProviderReport,
    RewardCandidateResult,
    RewardGroupRequest,
    RewardGroupResult,
    RewardProviderResult,
    RewardProviderSpec,
    RewardReport,
    RewardWorker,
)
from posttrain.schema import Trajectory

Batch = Callable[..., list[Trajectory]]
Spec = Callable[..., RewardProviderSpec]
ReadOff = Callable[..., RewardGroupResult]

LARGEST = 1.7976931348623157e308


@pytest.fixture
def worker(spec_of: Spec, read_off: ReadOff) -> Callable[..., RewardWorker]:
    """A judge that counts its calls and times, and a rule without diagnostics; the group ``lost`` is dropped."""

    def judge(request: RewardGroupRequest) -> Any:
        if request.group_id == "lost":
            raise RewardUnavailableError("no answer")
        honest = read_off(request, "quality")
        items = []
        for item in honest.items:
            value = item.result.terms["quality"]
            notes = {
                "calls": MetricContribution.total(2),
                "seconds": MetricContribution.mean(value, 1 if value < 3 else 3),
                "best": MetricContribution.maximum(value),
                "worst": MetricContribution.minimum(value),
            }
            items.append(RewardCandidateResult(item.trajectory_id, RewardProviderResult(item.result.terms, notes)))
        return replace(honest, items=tuple(items))

    catalog = {
        "judge": spec_of(
            "quality", evaluate=judge, diagnostics=("calls", "seconds", "best", "worst", "never"), needs=("prompt",)
        ),
        "rule": spec_of("short"),
    }

    def make(**settings: Any) -> RewardWorker:
        defaults = {"weights": {"short": -0.5}, "on_unavailable": "drop_group", "max_dropped_fraction": 0.5}
        return RewardWorker(catalog=catalog, reward=("judge", "rule"), group_size=2, **{**defaults, **settings})

    return make


def test_every_metric_by_hand(worker: Callable[..., RewardWorker], batch_of: Batch) -> None:
    """Keys and values of a batch of three groups, one of them dropped and one without spread."""
    # Finals, quality - short / 2: 1 and 3 in the group a, 2 and 2 in the group b.
    batch = batch_of(
        {
            "a": [{"quality": 1.0, "short": 0.0}, {"quality": 4.0, "short": 2.0}],
            "b": [{"quality": 2.0, "short": 0.0}, {"quality": 3.0, "short": 2.0}],
            "lost": [{"quality": 9.0, "short": 9.0}] * 2,
        }
    )
    for each, verdict in zip(batch, ["stop", "length", None, "LENGTH", "length", None], strict=True):
        each.policy_info = {"finish_reason": verdict}
    report = worker().score(batch)
    assert report.metrics() == {
        # Finals 1 3 2 2: mean 2, squared distances 1 1 0 0 over 4.
        "train/reward/final/mean": 2.0,
        "train/reward/final/std": math.sqrt(0.5),
        "train/reward/final/min": 1.0,
        "train/reward/final/max": 3.0,
        # Raw values, not weighted: (1 + 4 + 2 + 3) / 4 and (0 + 2 + 0 + 2) / 4.
        "train/reward/quality/mean": 2.5,
        "train/reward/short/mean": 1.0,
        "train/group/count": 3.0,
        "train/group/dropped_count": 1.0,
        # One of the two groups that were scored.
        "train/group/zero_spread_fraction": 0.5,
        # Of all six candidates, those of the dropped group too.
        "train/completion/truncated_fraction": 2 / 6,
        "train/completion/unknown_finish_fraction": 2 / 6,
        "train/reward_provider/judge/calls": 8.0,
        # (1 · 1 + 4 · 3 + 2 · 1 + 3 · 3) / (1 + 3 + 1 + 3).
        "train/reward_provider/judge/seconds": 3.0,
        "train/reward_provider/judge/best": 4.0,
        "train/reward_provider/judge/worst": 1.0,
        "train/reward_provider/judge/sample_count": 4.0,
        "train/reward_provider/rule/sample_count": 4.0,
    }
    assert all(type(value) is float for value in report.metrics().values())
    assert list(report.providers) == ["judge", "rule"]
    assert report.providers["judge"].slowest_group in {"a", "b"}
    assert 0 < report.providers["judge"].slowest_seconds <= report.providers["judge"].seconds


def test_the_namespace_is_in_front(worker: Callable[..., RewardWorker], batch_of: Batch) -> None:
    """A validation worker reports the same metrics under ``val``."""
    groups = {"a": [{"quality": 1.0, "short": 0.0}, {"quality": 4.0, "short": 2.0}]}
    train = worker().score(batch_of(groups)).metrics()
    val = worker(namespace="val").score(batch_of(groups)).metrics()
    assert val == {key.replace("train/", "val/", 1): value for key, value in train.items()}
    assert all(key.startswith("val/") for key in val)


def test_an_empty_report_has_counts_only() -> None:
    """What has no value yet is absent: no mean of nothing, no share of nothing."""
    assert RewardReport(namespace="train").metrics() == {"train/group/count": 0.0, "train/group/dropped_count": 0.0}


def test_a_report_of_dropped_groups_has_no_reward() -> None:
    """Where every group was dropped there is no reward to report, but what is known of the completions is there."""
    report = RewardReport(
        namespace="val", group_count=2, dropped={"judge: TimeoutError": 2}, candidate_count=8, truncated_count=2
    )
    assert report.metrics() == {
        "val/group/count": 2.0,
        "val/group/dropped_count": 2.0,
        "val/completion/truncated_fraction": 0.25,
        "val/completion/unknown_finish_fraction": 0.0,
    }


@given(finals=st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20))
def test_the_spread_is_that_of_the_standard_library(spec_of: Spec, batch_of: Batch, finals: list[float]) -> None:
    """Mean, population standard deviation and range of all scored candidates, whatever their groups."""
    worker = RewardWorker(catalog={"p": spec_of("task")}, reward="p", group_size=1)
    metrics = worker.score(batch_of({f"g{at}": [final] for at, final in enumerate(finals)})).metrics()
    spread = statistics.pstdev(finals)
    assert metrics["train/reward/final/std"] == pytest.approx(spread, rel=1e-15, abs=math.ulp(spread))
    assert metrics["train/reward/final/mean"] == pytest.approx(statistics.fmean(finals), rel=1e-15, abs=1e-300)
    assert metrics["train/reward/final/min"] == min(finals)
    assert metrics["train/reward/final/max"] == max(finals)


def test_huge_rewards_are_reported(spec_of: Spec, batch_of: Batch) -> None:
    """Neither the mean nor the spread of rewards near the largest float overflows."""
    worker = RewardWorker(catalog={"p": spec_of("task")}, reward="p", group_size=2)
    metrics = worker.score(batch_of({"a": [LARGEST, LARGEST], "b": [LARGEST, -LARGEST]})).metrics()
    # Three times x and once -x: mean x / 2, squared distances 3 · 1/4 and 9/4 of x², over 4: 3/4.
    assert metrics["train/reward/final/mean"] == LARGEST / 2
    assert metrics["train/reward/final/std"] == pytest.approx(math.sqrt(0.75) * LARGEST, rel=1e-15)
    assert metrics["train/reward/task/mean"] == LARGEST / 2


def test_small_rewards_beside_huge_ones_are_not_lost(spec_of: Spec, batch_of: Batch) -> None:
    """A mean is exact before its one rounding."""
    worker = RewardWorker(catalog={"p": spec_of("task")}, reward="p", group_size=2)
    metrics = worker.score(batch_of({"a": [1e300, 1.0], "b": [-1e300, 2.0]})).metrics()
    assert metrics["train/reward/final/mean"] == 0.75


def test_a_total_out_of_range_is_named() -> None:
    """The one metric that no float may be able to hold is refused by name, never reported as infinity."""
    total = MetricContribution.total(1e308).merge(MetricContribution.total(1e308))
    report = RewardReport(namespace="train", providers={"judge": ProviderReport(diagnostics={"tokens": total})})
    with pytest.raises(
        RewardContractError, match=re.escape("metric 'judge/tokens': a total went beyond the range of a float")
    ):
        report.metrics()


def test_diagnostics_enter_no_reward(worker: Callable[..., RewardWorker], batch_of: Batch) -> None:
    """Rewards and advantages hold the terms and ``final``, nothing of what is only reported."""
    batch = batch_of({"a": [{"quality": 1.0, "short": 0.0}, {"quality": 4.0, "short": 2.0}]})
    worker(estimator="group_mean").score(batch)
    assert [each.reward for each in batch] == [
        {"quality": 1.0, "short": 0.0, "final": 1.0},
        {"quality": 4.0, "short": 2.0, "final": 3.0},
    ]
    assert [each.advantage for each in batch] == [-1.0, 1.0]


@pytest.mark.parametrize("name", ["a/b", "", " calls", "sample_count", "final", "Größe", "-calls", 7])
def test_a_diagnostic_is_one_segment_of_a_path(spec_of: Spec, name: Any) -> None:
    """A name that would make another path, or one of the framework's, is refused before any batch."""
    with pytest.raises(Exception, match="diagnostic name"):
        spec_of("task", diagnostics=(name,))
