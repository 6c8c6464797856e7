# SPDX-License-Identifier: Apache-2.0
"""A batch that is spread over ranks is scored as one process would score it, or not at all."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execution.ranks.rank_threads import batch_of, exchanges, on_ranks, trajectory, worker_for
from posttrain.errors import RewardConfigError, RewardContractError, RewardError, RewardUnavailableError
from posttrain.execution.ranks import (
    RankEvaluator,
    RankExchange,
    RemoteLatent,
    compute_on_ranks,
    gather_batch,
    score_on_ranks,
)
from posttrain.rewards import ProviderExecution, RewardGroupRequest, RewardReport, RewardWorker
from posttrain.schema import Trajectory

LOCAL = {
    "needs": (),
    "execution": ProviderExecution(rank_local=True),
}


def _tell(request: RewardGroupRequest) -> list[float]:
    return [random.Random(each.completion).uniform(-3, 3) for each in request.candidates]


def _written(trajectories: list[Trajectory]) -> list[Any]:
    return [(each.trajectory_id, each.reward, each.advantage) for each in trajectories]


def _untimed(report: RewardReport) -> dict[str, float]:
    return report.metrics()


def _scored(parts: list[list[Trajectory]], tell: Callable[[RewardGroupRequest], Any], **settings: Any) -> list[Any]:
    """On each rank: the report and what was written into its own trajectories, or the error."""

    def work(exchange: RankExchange) -> Any:
        own = parts[exchange.rank]
        with worker_for(exchange, tell, **settings) as worker:
            report = score_on_ranks(worker, exchange, own)
        return _untimed(report), _written(own)

    return on_ranks(exchanges(len(parts)), work)


@given(
    st.integers(1, 4),
    st.integers(1, 5),
    st.integers(1, 4),
    st.sampled_from(["group_norm", "group_mean", "leave_one_out", "group_mean_batch_std"]),
    st.randoms(use_true_random=False),
)
def test_ranks_score_as_one_process_does(
    ranks: int, groups: int, size: int, estimator: str, chance: random.Random
) -> None:
    """However a batch is spread, rewards, advantages and every metric are those of one process, bit for bit."""
    settings = {"group_size": size, "estimator": estimator}
    batch = batch_of(groups, size)
    chance.shuffle(batch)
    cuts = sorted(chance.choices(range(len(batch) + 1), k=ranks - 1))
    parts = [batch[start:end] for start, end in zip([0, *cuts], [*cuts, len(batch)], strict=True)]
    ends = _scored(parts, _tell, **settings)
    alone = batch_of(groups, size)
    by_id = {each.trajectory_id: each for each in alone}
    alone = [by_id[each.trajectory_id] for each in batch]
    report = worker_for(None, _tell, **settings).score(alone)
    assert [end[0] for end in ends] == [_untimed(report)] * ranks
    assert repr([row for end in ends for row in end[1]]) == repr(_written(alone))


def test_each_group_is_evaluated_by_one_rank() -> None:
    """Groups are dealt out whole, by index, also where their candidates straddle ranks."""
    seen: list[tuple[str, tuple[str, ...]]] = []

    def tell(request: RewardGroupRequest) -> list[float]:
        seen.append((request.group_id, tuple(each.trajectory_id for each in request.candidates)))
        return _tell(request)

    batch = batch_of(3, 2)
    _scored([batch[:3], batch[3:]], tell)
    assert sorted(seen) == [(f"g{group}", (f"g{group}/0", f"g{group}/1")) for group in range(3)]


def test_copies_are_what_the_stage_reads() -> None:
    """Own objects stand at their places; copies hold ids, inputs, completion, count and verdict, and no more."""
    parts = [
        [trajectory(0, 0, "a", policy_info={"finish_reason": "length", "completion_token_count": 7, "ids": [1, 2]})],
        [trajectory(0, 1, "\ud800", latent=object(), reward={"step": 1.0})],
    ]
    shared = {"k": [1, 2.5, None, True]}
    parts[0][0].obs.reference = shared
    ends = on_ranks(exchanges(2), lambda exchange: gather_batch(exchange, parts[exchange.rank]))
    assert [[each.trajectory_id for each in batch] for batch in ends] == [["g0/0", "g0/1"]] * 2
    assert ends[0][0] is parts[0][0]
    assert ends[1][1] is parts[1][0]
    copy = ends[1][0]
    assert (copy.completion, copy.policy_info) == ("a", {"finish_reason": "length", "completion_token_count": 7})
    assert (copy.obs.id, copy.obs.prompt, copy.obs.reference, copy.latent) == ("g0", "prompt 0", shared, None)
    assert (ends[0][1].latent, ends[0][1].reward, ends[0][1].completion) == (RemoteLatent(1), {}, "\ud800")


def test_inputs_that_nobody_needs_do_not_travel() -> None:
    """An undeclared input may be anything: it stays where it is, and the stage never looks at it."""
    parts = [[trajectory(0, 0)], [trajectory(0, 1)]]
    parts[0][0].obs.reference = object()
    ends = _scored(parts, _tell, spec={"needs": ("prompt",)})
    assert not [end for end in ends if isinstance(end, Exception)]


@pytest.mark.parametrize(
    ("break_it", "text"),
    [
        (
            lambda each: setattr(each.obs, "reference", {"x": {1}}),
            "rank 1: trajectories that can't be shown.*'g0/1'.*reference.x",
        ),
        (lambda each: setattr(each, "completion", 3), r"rank 1: .*\[0\]: completion: expected a string or None, got 3"),
        (lambda each: setattr(each, "group_id", b"g"), r"rank 1: .*group_id: expected a string or None"),
        (lambda each: setattr(each, "obs", None), r"rank 1: .*obs: expected an Observation, got None"),
        (lambda each: setattr(each.obs, "row_id", 3), r"rank 1: .*obs.row_id: expected a string or None, got 3"),
        (lambda each: setattr(each, "policy_info", []), r"rank 1: .*policy_info: expected a dict"),
        (
            lambda each: each.policy_info.update(finish_reason=3),
            r"rank 1: .*finish_reason: expected str or None, got 3",
        ),
        (lambda each: setattr(each, "reward", None), r"rank 1: .*reward has to be a dict, got None"),
        (lambda each: setattr(each, "completion", None), r"^group 'g0', trajectory 'g0/1': the batch does not fit"),
        (lambda each: setattr(each, "trajectory_id", "g0/0"), r"trajectory 'g0/0': the batch.*stands 2 times"),
    ],
)
def test_a_bad_trajectory_on_one_rank_is_an_error_on_all(break_it: Callable[[Any], Any], text: str) -> None:
    """What only its own rank can see, and what all see, ends alike everywhere and writes nothing."""
    parts = [[trajectory(0, 0)], [trajectory(0, 1)]]
    break_it(parts[1][0])
    ends = _scored(parts, _tell)
    assert {type(end) for end in ends} == {RewardContractError}
    assert len({str(end) for end in ends}) == 1
    assert re.search(text, str(ends[0]), re.DOTALL), str(ends[0])
    assert [each.reward for part in parts for each in part if each.reward] == []


def test_something_that_is_no_trajectory_is_refused_everywhere() -> None:
    """A stray object among one rank's trajectories is named with its place."""
    ends = _scored([[trajectory(0, 0), "stray"], [trajectory(0, 1)]], _tell)  # type: ignore[list-item]  # the mistake under test
    assert {str(end) for end in ends} == {
        "rank 0: trajectories that can't be shown to the other ranks:\n  [1]: expected a Trajectory, got 'stray' (str)"
    }


@pytest.mark.parametrize("kind", [RewardContractError, RewardUnavailableError, ValueError])
def test_a_provider_that_fails_on_one_rank_fails_on_all(kind: type[Exception]) -> None:
    """Group 1 is rank 1's; its failure is every rank's, nobody's trajectories are touched."""

    def tell(request: RewardGroupRequest) -> list[float]:
        if request.group_id == "g1":
            raise kind("bad weather")
        return _tell(request)

    batch = batch_of(3, 2)
    ends = _scored([batch[:2], batch[2:4], batch[4:]], tell)
    assert len({(type(end), str(end)) for end in ends}) == 1
    assert str(ends[0]).startswith("provider 'told', group 'g1': rank 1: ")
    assert "bad weather" in str(ends[0])
    assert isinstance(ends[0], kind if issubclass(kind, RewardError) else RewardContractError)
    assert ends[1].request.group_id == "g1"
    assert [each.reward for each in batch if each.reward or each.advantage] == []


def test_dropped_groups_are_dropped_on_every_rank() -> None:
    """An unavailable group is left out, counted by cause and in the same way as in one process."""

    def tell(request: RewardGroupRequest) -> list[float]:
        if request.group_id == "g2":
            raise RewardUnavailableError("503") from TimeoutError("5 s")
        return _tell(request)

    settings = {"on_unavailable": "drop_group", "max_dropped_fraction": 0.5}
    batch, alone = batch_of(4, 2), batch_of(4, 2)
    ends = _scored([batch[:3], batch[3:]], tell, **settings)
    report = worker_for(None, tell, **settings).score(alone)
    assert report.dropped == {"told: TimeoutError": 1}
    assert [end[0] for end in ends] == [_untimed(report)] * 2
    assert [row for end in ends for row in end[1]] == _written(alone)
    assert [each.advantage for each in batch[4:6]] == [None, None]


class _BusyError(RewardUnavailableError):
    """An author's own kind of unavailable."""


def test_a_group_that_is_dropped_by_an_authors_own_error_is_counted_as_in_one_process() -> None:
    """The report's cause is the author's type, on whichever rank it was raised."""

    def tell(request: RewardGroupRequest) -> list[float]:
        if request.group_id == "g1":
            raise _BusyError("later")
        return _tell(request)

    settings: dict[str, Any] = {"on_unavailable": "drop_group", "max_dropped_fraction": 0.5}
    batch = batch_of(3, 2)

    def work(exchange: RankExchange) -> Any:
        with worker_for(exchange, tell, **settings) as worker:
            return score_on_ranks(worker, exchange, batch[:3] if exchange.rank else batch[3:]).dropped

    alone = worker_for(None, tell, **settings).score(batch_of(3, 2)).dropped
    assert alone == {"told: _BusyError": 1}
    assert on_ranks(exchanges(2), work) == [alone] * 2


def test_a_cancellation_goes_through_and_keeps_nobody() -> None:
    """It is no failure of the rewards: it is raised as it is, and the other rank ends at once."""

    def tell(request: RewardGroupRequest) -> list[float]:
        raise CancelledError

    batch = batch_of(1, 2)
    places = exchanges(2, timeout_s=300)

    def work(exchange: RankExchange) -> Any:
        with worker_for(exchange, tell) as worker:
            return score_on_ranks(worker, exchange, batch if exchange.rank == 0 else [])

    ends = on_ranks(places, work)
    assert type(ends[0]) is CancelledError
    assert str(ends[1]) == "rank 0: went away because of CancelledError"


def test_too_many_dropped_groups_fail_on_every_rank_alike() -> None:
    """A failure that every rank computes from the same evaluations names no rank."""

    def tell(request: RewardGroupRequest) -> list[float]:
        raise RewardUnavailableError("503")

    batch = batch_of(2, 2)
    ends = _scored([batch[:2], batch[2:]], tell, on_unavailable="drop_group")
    assert {str(end) for end in ends} == {
        "2 of 2 groups could not be scored, so none is left, by cause:\n  told: RewardUnavailableError: 2"
    }


def test_ranks_with_other_settings_are_told_so() -> None:
    """The stage's identity and namespace are compared before anything is evaluated."""
    batch = batch_of(1, 2)

    def work(exchange: RankExchange) -> Any:
        fields: dict[str, Any] = {"estimator": "group_mean", "namespace": "val"} if exchange.rank == 2 else {}
        with worker_for(exchange, _tell, **fields) as worker:
            return score_on_ranks(worker, exchange, batch if exchange.rank == 0 else [])

    ends = on_ranks(exchanges(3), work)
    assert {type(end) for end in ends} == {RewardConfigError}
    assert len({str(end) for end in ends}) == 1
    assert str(ends[0]) == (
        "the ranks' rewards are not set up alike:\n"
        "  namespace: rank 0 has 'train', rank 2 'val'\n"
        '  estimator: rank 0 has "group_norm", rank 2 "group_mean"'
    )


def test_a_worker_that_does_not_evaluate_over_the_ranks_is_refused() -> None:
    """With an in-process worker every rank would score the whole batch by itself."""

    def work(exchange: RankExchange) -> Any:
        return score_on_ranks(worker_for(None if exchange.rank else exchange, _tell), exchange, [])

    ends = on_ranks(exchanges(2), work)
    assert {type(end) for end in ends} == {RewardConfigError}
    assert "rank 1: the worker evaluates with InProcessEvaluator, expected a RankEvaluator" in str(ends[0])


def test_ranks_that_hold_other_batches_are_refused() -> None:
    """The evaluator compares what each rank means to evaluate."""

    def work(exchange: RankExchange) -> Any:
        return worker_for(exchange, _tell).score(batch_of(1 + exchange.rank, 2))

    ends = on_ranks(exchanges(2), work)
    assert [type(end) for end in ends] == [RewardContractError] * 2
    assert "rank 0 holds another batch than ranks [1]" in str(ends[0])


def _latents(*places: tuple[int, int, float]) -> list[Trajectory]:
    return [trajectory(group, place, latent=value) for group, place, value in places]


def _of_latent(request: RewardGroupRequest[Any]) -> list[float]:
    return [each.latent for each in request.candidates]


def test_four_ranks_with_one_latent_each() -> None:
    """Two groups of two, one trajectory a rank: advantages by hand, the same complete outcome on every rank.

    Rewards 1 and 3 (mean 2), 0 and 4 (mean 2). Over the batch the mean is 2 and the population variance
    ((1 + 1 + 4 + 4) / 4) = 2.5, so each deviation is divided by sqrt(2.5) + 1e-4.
    """
    values = [1.0, 3.0, 0.0, 4.0]
    owned = [_latents((rank // 2, rank % 2, value)) for rank, value in enumerate(values)]
    seen: list[tuple[str, list[str]]] = []

    def tell(request: RewardGroupRequest[Any]) -> list[float]:
        seen.append((request.group_id, [each.trajectory_id for each in request.candidates]))
        return _of_latent(request)

    def work(exchange: RankExchange) -> Any:
        own = owned[exchange.rank]
        with worker_for(exchange, tell, estimator="group_mean_batch_std", spec=LOCAL) as worker:
            outcome, _ = compute_on_ranks(worker, exchange, own)
        return [group.advantages for group in outcome.groups], outcome.report.metrics()

    ends = on_ranks(exchanges(4), work)
    scale = 2.5**0.5 + 1e-4
    table = [(-1 / scale, 1 / scale), (-2 / scale, 2 / scale)]
    assert [end[0] for end in ends] == [table] * 4
    assert len({repr(end[1]) for end in ends}) == 1
    assert [own[0].advantage for own in owned] == [-1 / scale, 1 / scale, -2 / scale, 2 / scale]
    assert [own[0].reward for own in owned] == [{"task": value, "final": value} for value in values]
    # Each rank's provider saw its own candidate and no other.
    assert sorted(seen) == [(f"g{rank // 2}", [f"g{rank // 2}/{rank % 2}"]) for rank in range(4)]
    metrics = ends[0][1]
    assert metrics["train/reward_provider/told/sample_count"] == 4.0
    assert metrics["train/reward_provider/told/length"] == 4.0
    assert metrics["train/reward/final/std"] == pytest.approx(2.5**0.5)


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 4), st.randoms(use_true_random=False))
def test_latents_are_scored_where_they_are(ranks: int, groups: int, size: int, chance: random.Random) -> None:
    """However latents are spread, in whatever order, results are those of one process that holds them all."""
    places = [(group, place, chance.uniform(-2, 2)) for group in range(groups) for place in range(size)]
    chance.shuffle(places)
    owners = [chance.randrange(ranks) for _ in places]
    parts = [
        _latents(*(it for it, owner in zip(places, owners, strict=True) if owner == rank)) for rank in range(ranks)
    ]
    ends = _scored(parts, _of_latent, group_size=size, spec=LOCAL)
    alone = [
        trajectory(*(it.obs.reference["n"], int(it.trajectory_id[-1])), latent=it.latent)
        for part in parts
        for it in part
    ]
    report = worker_for(None, _of_latent, group_size=size, spec=LOCAL).score(alone)
    assert [end[0] for end in ends] == [_untimed(report)] * ranks
    assert repr([row for end in ends for row in end[1]]) == repr(_written(alone))


def test_a_group_is_dropped_when_one_rank_can_not_score_its_part() -> None:
    """An unavailable service on one rank drops the whole group on all, and no other group."""

    def tell(request: RewardGroupRequest[Any]) -> list[float]:
        if request.candidates[0].trajectory_id == "g0/1":
            raise RewardUnavailableError("the service hung up")
        return _of_latent(request)

    owned = [_latents((rank // 2, rank % 2, float(rank))) for rank in range(4)]
    ends = _scored(owned, tell, spec=LOCAL, on_unavailable="drop_group", max_dropped_fraction=0.5)
    assert [end[1][0][2] is None for end in ends] == [True, True, False, False]
    assert {end[0]["train/group/dropped_count"] for end in ends} == {1.0}


def test_a_latent_that_no_rank_holds_is_refused() -> None:
    """A batch of copies alone can't be scored."""
    worker = worker_for(RankExchange(), _of_latent, spec=LOCAL)
    with pytest.raises(RewardContractError, match="group 'g0': was evaluated by no rank"):
        worker.score([trajectory(0, place, latent=RemoteLatent(1)) for place in range(2)])


def test_a_part_of_a_group_that_is_missing_is_refused() -> None:
    """Each candidate has to be evaluated exactly once."""
    worker = worker_for(RankExchange(), _of_latent, spec=LOCAL)
    mixed = [trajectory(0, 0, latent=1.0), trajectory(0, 1, latent=RemoteLatent(1))]
    with pytest.raises(RewardContractError, match=r"the ranks evaluated \('g0/0',\).*exactly once"):
        worker.score(mixed)


def test_the_inner_evaluator_runs_the_share() -> None:
    """`inner` has the life and the concurrency of this rank's providers."""
    exchange = exchanges(3)[0]
    evaluator = RankEvaluator(exchange)
    spec = {"execution": ProviderExecution(groups_in_flight=4)}
    worker = worker_for(exchange, _tell, spec=spec)
    assert worker.stage.evaluator.groups_in_flight == 12
    with pytest.raises(RewardConfigError, match="groups_in_flight"):
        RewardWorker(reward="gsm8k", group_size=1, groups_in_flight=0, evaluator=evaluator)
