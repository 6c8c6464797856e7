# SPDX-License-Identifier: Apache-2.0
"""The failure policy: an unavailable service fails the batch, or costs whole groups up to a ceiling; never a number."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.errors import RewardConfigError, RewardContractError, RewardError, RewardUnavailableError
from posttrain.rewards import (
    RewardCandidate,
    RewardContext,
    RewardGroupRequest,
    RewardProviderResult,
    RewardProviderSpec,
    RewardReport,
    RewardWorker,
    map_candidates,
)
from posttrain.schema import Trajectory

Batch = Callable[..., list[Trajectory]]
Spec = Callable[..., RewardProviderSpec]
State = Callable[..., list[tuple[int, str, str]]]
Failing = Callable[..., RewardWorker]


@pytest.fixture(scope="session")
def failing(spec_of: Spec, read_off: Callable[..., Any]) -> Failing:
    """A worker whose provider ``judge`` raises what `failures` holds for a group, and drops groups unless told."""

    def make(failures: dict[str, Exception], **settings: Any) -> RewardWorker:
        def evaluate(request: RewardGroupRequest) -> Any:
            if (failure := failures.get(request.group_id)) is not None:
                raise failure
            return read_off(request, "task")

        defaults = {"group_size": 2, "estimator": "group_mean", "on_unavailable": "drop_group"}
        catalog = {"judge": spec_of("task", evaluate=evaluate)}
        return RewardWorker(catalog=catalog, reward="judge", **{**defaults, **settings})

    return make


def _groups(count: int) -> dict[str, list[float]]:
    return {f"g{number}": [1.0, 3.0] for number in range(count)}


def _down(*names: str) -> dict[str, Exception]:
    return {name: RewardUnavailableError("no answer") for name in names}


def test_by_default_the_batch_fails(failing: Failing, batch_of: Batch, state_of: State) -> None:
    """One unavailable group of a hundred fails the whole batch, and nothing is written."""
    batch = batch_of(_groups(100))
    before = state_of(batch)
    with pytest.raises(RewardUnavailableError, match=r"^provider 'judge', group 'g7': no answer$"):
        failing(_down("g7"), on_unavailable="fail").score(batch)
    assert state_of(batch) == before


def test_whole_groups_are_dropped(failing: Failing, batch_of: Batch) -> None:
    """Of a dropped group no candidate has a reward or an advantage; the others are scored as if it were not there."""
    batch = batch_of(_groups(10))
    report = failing(_down("g3")).score(batch)
    for each in batch:
        if each.group_id == "g3":
            assert (each.reward, each.advantage) == ({}, None)
        else:
            value = 1.0 if each.trajectory_id.endswith("/0") else 3.0
            assert (each.reward, each.advantage) == ({"task": value, "final": value}, value - 2.0)
    assert report.dropped == {"judge: RewardUnavailableError": 1}
    assert (report.group_count, report.dropped_count, report.scored_group_count) == (10, 1, 9)


def test_one_candidate_costs_its_whole_group(spec_of: Spec, batch_of: Batch) -> None:
    """When a service fails for one candidate of a pointwise scorer, the scores of the others are not kept."""

    def score(candidate: RewardCandidate, context: RewardContext) -> RewardProviderResult:
        if candidate.trajectory_id == "g1/1":
            raise RewardUnavailableError("no answer")
        return RewardProviderResult({"task": 1.0})

    catalog = {"judge": spec_of("task", factory=partial(map_candidates, score))}
    worker = RewardWorker(
        catalog=catalog, reward="judge", group_size=3, on_unavailable="drop_group", max_dropped_fraction=0.5
    )
    batch = batch_of({"g0": [0, 0, 0], "g1": [0, 0, 0]})
    worker.score(batch)
    assert [each.reward for each in batch] == [{"task": 1.0, "final": 1.0}] * 3 + [{}] * 3
    assert [each.advantage for each in batch] == [0.0] * 3 + [None] * 3


@pytest.mark.parametrize(
    "fault",
    [RewardContractError("bad"), RewardConfigError("bad key"), ValueError("bad"), TimeoutError("bad"), OSError("bad")],
    ids=lambda fault: type(fault).__name__,
)
def test_no_other_failure_is_dropped(failing: Failing, batch_of: Batch, state_of: State, fault: Exception) -> None:
    """A contract or config error fails the batch under any ceiling; so does a timeout that nobody classified."""
    batch = batch_of(_groups(20))
    before = state_of(batch)
    with pytest.raises(RewardError, match=r"^provider 'judge', group 'g5': .*bad") as caught:
        failing({"g5": fault}, max_dropped_fraction=1.0).score(batch)
    assert not isinstance(caught.value, RewardUnavailableError)
    assert state_of(batch) == before


@pytest.mark.parametrize(
    ("lost", "total", "passes"), [(1, 10, True), (1, 9, False), (2, 20, True), (3, 29, False), (0, 1, True)]
)
def test_the_default_ceiling_is_a_tenth(
    failing: Failing, batch_of: Batch, state_of: State, lost: int, total: int, passes: bool
) -> None:
    """A tenth of the groups may be dropped, exactly a tenth included; above it the batch fails and stays as it was."""
    worker = failing(_down(*(f"g{number}" for number in range(lost))))
    batch = batch_of(_groups(total))
    before = state_of(batch)
    if passes:
        assert worker.score(batch).dropped_count == lost
        return
    with pytest.raises(
        RewardUnavailableError,
        match=rf"^{lost} of {total} groups could not be scored, above the ceiling of 0\.1 \(max_dropped_fraction\), "
        rf"by cause:\n  judge: RewardUnavailableError: {lost}$",
    ):
        worker.score(batch)
    assert state_of(batch) == before


@given(total=st.integers(2, 3000), data=st.data())
def test_exactly_at_the_ceiling_is_fine(failing: Failing, total: int, data: st.DataObject) -> None:
    """A ceiling of d / n lets d groups of n go, however the fraction rounds, and the next smaller ceiling does not."""
    dropped = data.draw(st.integers(1, total - 1))
    report = RewardReport(namespace="train", group_count=total, dropped={"judge: X": dropped})
    ceiling = dropped / total
    failing({}, max_dropped_fraction=ceiling).stage.check_dropped(report)
    failing({}, max_dropped_fraction=1.0).stage.check_dropped(report)
    for lower in (math.nextafter(ceiling, 0), (dropped - 1) / total, 0.0):
        with pytest.raises(RewardUnavailableError, match=f"^{dropped} of {total} groups could not be scored, above "):
            failing({}, max_dropped_fraction=lower).stage.check_dropped(report)


def test_a_ceiling_means_what_it_says_in_decimals(failing: Failing) -> None:
    """29 of 100 is at a ceiling of 0.29, though 0.29 · 100 is 28.999999999999996."""
    assert 0.29 * 100 < 29
    report = RewardReport(namespace="train", group_count=100, dropped={"judge: X": 29})
    failing({}, max_dropped_fraction=0.29).stage.check_dropped(report)


@pytest.mark.parametrize("total", [1, 4])
def test_something_has_to_be_left(failing: Failing, batch_of: Batch, state_of: State, total: int) -> None:
    """A batch of which every group is unavailable fails under any ceiling: there is nothing to train on."""
    worker = failing(_down(*(f"g{number}" for number in range(total))), max_dropped_fraction=1.0)
    batch = batch_of(_groups(total))
    before = state_of(batch)
    with pytest.raises(
        RewardUnavailableError,
        match=rf"^{total} of {total} groups could not be scored, so none is left, by cause:\n"
        rf"  judge: RewardUnavailableError: {total}$",
    ):
        worker.score(batch)
    assert state_of(batch) == before


def test_a_ceiling_of_zero_drops_nothing(failing: Failing, batch_of: Batch) -> None:
    """With 0 the policy is as strict as the default one, and says how many groups there were."""
    with pytest.raises(RewardUnavailableError, match=r"^1 of 50 groups could not be scored, above the ceiling of 0 "):
        failing(_down("g0"), max_dropped_fraction=0.0).score(batch_of(_groups(50)))


class _GatewayDownError(RewardUnavailableError):
    """A provider's own kind of unavailable."""


def _because(cause: BaseException) -> RewardUnavailableError:
    error = RewardUnavailableError("no answer")
    error.__cause__ = cause
    return error


def test_dropped_groups_are_counted_by_cause(failing: Failing, batch_of: Batch) -> None:
    """A cause is the provider with the type of what was behind the failure; each has its count."""
    failures: dict[str, Exception] = {
        "g0": _because(TimeoutError("5 s")),
        "g1": _because(ConnectionResetError()),
        "g2": _because(TimeoutError("9 s")),
        "g3": RewardUnavailableError("no answer"),
        "g4": _GatewayDownError("no answer"),
    }
    report = failing(failures, max_dropped_fraction=0.5).score(batch_of(_groups(10)))
    assert report.dropped == {
        "judge: TimeoutError": 2,
        "judge: ConnectionResetError": 1,
        "judge: RewardUnavailableError": 1,
        "judge: _GatewayDownError": 1,
    }
    assert report.metrics()["train/group/dropped_count"] == 5.0


def test_a_ceiling_that_is_passed_lists_every_cause(failing: Failing, batch_of: Batch) -> None:
    """The error of a batch that lost too many groups says what was behind them."""
    failures: dict[str, Exception] = {"g0": _because(TimeoutError()), "g1": RewardUnavailableError("no")}
    with pytest.raises(
        RewardUnavailableError, match=r"by cause:\n  judge: RewardUnavailableError: 1\n  judge: TimeoutError: 1$"
    ):
        failing(failures).score(batch_of(_groups(4)))


def test_dropped_groups_enter_no_number(failing: Failing, batch_of: Batch) -> None:
    """Means, spreads and batch-wide advantages are those of the groups that were scored, nothing is counted as 0."""
    batch = batch_of({"a": [1.0, 3.0], "lost": [100.0, -100.0], "b": [5.0, 11.0]})
    worker = failing(_down("lost"), max_dropped_fraction=0.5, estimator="group_mean_batch_std")
    metrics = worker.score(batch).metrics()
    # 1 3 5 11: mean 5, squared distances 16 4 0 36 over 4.
    assert metrics["train/reward/final/mean"] == metrics["train/reward/task/mean"] == 5.0
    assert metrics["train/reward/final/std"] == pytest.approx(math.sqrt(14), rel=1e-15)
    assert metrics["train/reward/final/min"] == 1.0
    assert metrics["train/group/zero_spread_fraction"] == 0.0
    assert metrics["train/reward_provider/judge/sample_count"] == 4.0
    scale = math.sqrt(14) + 1e-4
    scored = [each.advantage for each in batch if each.group_id != "lost"]
    assert scored == pytest.approx([-1 / scale, 1 / scale, -3 / scale, 3 / scale], rel=1e-14)


def test_the_outcome_says_which_groups_were_dropped(failing: Failing, batch_of: Batch) -> None:
    """A dropped group keeps its place and its ids, has no columns, and is not one without spread."""
    outcome = failing(_down("g1"), max_dropped_fraction=0.5).compute(batch_of(_groups(3)))
    dropped = outcome.groups[1]
    assert (dropped.group_id, dropped.trajectory_ids) == ("g1", ("g1/0", "g1/1"))
    assert (dropped.terms, dropped.final, dropped.advantages) == ({}, (), ())
    assert dropped.dropped_because == "judge: RewardUnavailableError"
    assert not dropped.has_spread
    assert [group.has_spread for group in outcome.groups] == [True, False, True]
    assert outcome.report.zero_spread_count == 0
