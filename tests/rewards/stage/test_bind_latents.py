# SPDX-License-Identifier: Apache-2.0
"""Rank-local providers are bound to latents by identity, as others are to completions, and the two are never mixed."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.errors import RewardConfigError, RewardContractError, RewardUnavailableError
from posttrain.rewards import (
    InProcessEvaluator,
    LatentCandidate,
    ProviderExecution,
    RewardCandidateResult,
    RewardCatalog,
    RewardGroupRequest,
    RewardGroupResult,
    RewardProviderResult,
    RewardProviderSpec,
    RewardWorker,
    map_candidates,
)
from posttrain.rewards.stage.bind import bind
from posttrain.rewards.stage.prepare import Selection, select
from posttrain.schema import Observation, Trajectory


class _Latent:
    """Worth a number; it fails whatever compares, hashes, prints or tests it."""

    def __init__(self, worth: float) -> None:
        self.worth = worth

    def _fail(self, *_: object) -> Any:
        raise AssertionError("the latent was looked at")

    __eq__ = __hash__ = __repr__ = __bool__ = __deepcopy__ = __reduce_ex__ = _fail


class _Sampled:
    """Reads the worth off each latent."""

    def __init__(self, term: str = "video", error: Exception | None = None) -> None:
        self._term, self._error = term, error

    def evaluate(self, request: RewardGroupRequest[Any]) -> RewardGroupResult:
        if self._error is not None:
            raise self._error
        items = [
            RewardCandidateResult(each.trajectory_id, RewardProviderResult({self._term: each.latent.worth}))
            for each in request.candidates
        ]
        return RewardGroupResult(request.group_id, tuple(items))


def _spec(term: str = "video", *, needs: tuple[str, ...] = (), error: Exception | None = None) -> RewardProviderSpec:
    return RewardProviderSpec(
        factory=lambda: _Sampled(term, error),
        revision="1",
        terms=(term,),
        needs=needs,
        execution=ProviderExecution(rank_local=True),
    )


def _selection(*needs: str) -> Selection:
    return select(RewardCatalog({"video": _spec(needs=needs)}), "video")


def _trajectory(group: str, index: int, worth: float = 0.0, **fields: Any) -> Trajectory:
    made: dict[str, Any] = {
        "trajectory_id": f"{group}-{index}",
        "group_id": group,
        "obs": Observation(id=group, prompt=f"prompt of {group}"),
        "latent": _Latent(worth),
    }
    return Trajectory(**{**made, **fields})


def _group(group: str, *worths: float) -> list[Trajectory]:
    return [_trajectory(group, index, worth) for index, worth in enumerate(worths)]


def _worker(**settings: Any) -> RewardWorker:
    return RewardWorker(**{"catalog": {"video": _spec()}, "reward": "video", "group_size": 2, **settings})


@given(st.data(), st.integers(1, 4), st.integers(1, 4))
def test_latents_are_correlated_by_identity(data: st.DataObject, count: int, size: int) -> None:
    """In any order of rows each candidate has its own trajectory's latent, the very object, in rollout order."""
    rows = [row for number in range(count) for row in _group(f"g{number}", *range(size))]
    batch = data.draw(st.permutations(rows))
    groups = bind(batch, _selection("prompt"), size)
    expected = {each.group_id: [row for row in batch if row.group_id == each.group_id] for each in batch}
    assert [group.group_id for group in groups] == list(expected)
    for group, members in zip(groups, expected.values(), strict=True):
        (request,) = group.requests
        assert group.trajectory_ids == tuple(row.trajectory_id for row in members)
        assert [type(each) for each in request.candidates] == [LatentCandidate] * size
        assert [each.trajectory_id for each in request.candidates] == [row.trajectory_id for row in members]
        assert all(each.latent is row.latent for each, row in zip(request.candidates, members, strict=True))
        assert (request.context.prompt, request.context.reference) == (f"prompt of {group.group_id}", None)


@given(st.data(), st.integers(2, 4), st.integers(1, 3))
def test_every_missing_latent_is_named_and_no_other(data: st.DataObject, count: int, size: int) -> None:
    """Whichever latents are missing, the error lists exactly their trajectories."""
    rows = [row for number in range(count) for row in _group(f"g{number}", *range(size))]
    missing = data.draw(st.sets(st.sampled_from(range(len(rows))), min_size=1))
    for index in missing:
        rows[index].latent = None
    with pytest.raises(RewardContractError, match="its latent is missing") as caught:
        bind(rows, _selection(), size)
    named = re.findall(r"trajectory '([^']*)': its latent is missing \(None\)$", caught.value.message, re.MULTILINE)
    assert sorted(named) == sorted(rows[index].trajectory_id for index in missing)


def test_a_group_of_latents_is_scored_annotated_and_committed() -> None:
    """Worths 1 and 3 have mean 2 and sample deviation sqrt(2): advantages -+1 / (sqrt(2) + 1e-4)."""
    batch = [*_group("a", 1.0, 3.0), *_group("b", 2.0, 2.0)]
    latents = [each.latent for each in batch]
    report = _worker().score(batch)
    assert [each.reward for each in batch] == [{"video": worth, "final": worth} for worth in (1.0, 3.0, 2.0, 2.0)]
    advantage = 1 / (2**0.5 + 1e-4)
    assert [each.advantage for each in batch] == pytest.approx([-advantage, advantage, 0.0, 0.0])
    assert all(each.latent is latent for each, latent in zip(batch, latents, strict=True))
    assert report.metrics()["train/reward_provider/video/sample_count"] == 4.0


@pytest.mark.parametrize("info", [{}, {"finish_reason": "length"}, {"finish_reason": None}])
def test_a_latent_counts_as_neither_cut_nor_unknown(info: dict[str, Any]) -> None:
    """The shares of cut and unknown endings are of completions: a batch of latents has none, and no such metric."""
    batch = [_trajectory("g", index, float(index), policy_info=dict(info)) for index in range(2)]
    report = _worker().score(batch)
    assert (report.candidate_count, report.latent_count) == (2, 2)
    assert (report.truncated_count, report.unknown_finish_count) == (0, 0)
    assert not [name for name in report.metrics() if "/completion/" in name]


def test_reports_of_latents_and_of_completions_merge(batch_of: Any, spec_of: Any) -> None:
    """Of 2 latents and 4 completions without a verdict the unknown share is 4 / 4, not 4 / 6."""
    texts = RewardWorker(catalog={"read": spec_of("task")}, reward="read", group_size=2)
    report = texts.score(batch_of({"a": [0.0, 1.0], "b": [0.0, 1.0]})).merge(_worker().score(_group("g", 0.0, 1.0)))
    assert (report.candidate_count, report.latent_count, report.unknown_finish_count) == (6, 2, 4)
    assert report.metrics()["train/completion/unknown_finish_fraction"] == 1.0


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"latent": None}, "its latent is missing (None)"),
        (
            {"latent": None, "completion": "text"},
            "its latent is missing (None); a rank-local provider scores latents, not its completion",
        ),
        ({"obs": None}, "obs has to be an Observation, got None"),
        ({"obs": Observation(id="other", prompt="p")}, "obs.id is 'other' (str), expected the group id 'g'"),
        ({"reward": None}, "reward has to be a dict, got None"),
        ({"policy_info": None}, "policy_info has to be a dict, got None"),
        (
            {"policy_info": {"finish_reason": 1}},
            "finish_reason has to be the engine's verdict as a string or None, got 1 (int)",
        ),
    ],
)
def test_a_malformed_record_is_refused_as_for_texts(fields: dict[str, Any], fault: str) -> None:
    """A latent is held to what every candidate is held to, and the good one beside it is not named."""
    batch = [_trajectory("g", 0), _trajectory("g", 1, **fields)]
    with pytest.raises(RewardContractError, match="the batch does not fit the contract") as caught:
        bind(batch, _selection(), 2)
    assert caught.value.message.splitlines()[1:] == [f"  group 'g', trajectory 'g-1': {fault}"]


def test_a_completion_is_no_substitute_for_a_latent_nor_the_other_way_round(spec_of: Any) -> None:
    """A provider of texts does not score a latent: the error says where the latent belongs."""
    texts = select(RewardCatalog({"read": spec_of("task")}), "read")
    with pytest.raises(RewardContractError, match="its latent is scored by a rank-local provider only"):
        bind(_group("g", 0.0, 1.0), texts, 2)


def test_a_trajectory_may_hold_both() -> None:
    """The provider's trait decides which of the two is bound."""
    batch = [_trajectory("g", index, float(index), completion="caption") for index in range(2)]
    assert type(bind(batch, _selection(), 2)[0].requests[0].candidates[0]) is LatentCandidate


def test_an_array_is_a_latent() -> None:
    """A latent whose comparison gives an array passes through, the empty one too."""
    batch = [_trajectory("g", 0, latent=np.zeros((2, 2))), _trajectory("g", 1, latent=np.zeros(0))]
    candidates = bind(batch, _selection(), 2)[0].requests[0].candidates
    assert all(each.latent is row.latent for each, row in zip(candidates, batch, strict=True))


def _mixed(spec_of: Any, names: Sequence[str]) -> None:
    catalog = {"video": _spec(), "style": _spec("style"), "read": spec_of("task"), "more": spec_of("more")}
    RewardWorker(catalog=catalog, reward=names, group_size=2)


def test_latents_and_texts_are_not_scored_by_one_worker(spec_of: Any) -> None:
    """A selection of both kinds is refused when the worker is made, with the providers of each kind."""
    with pytest.raises(RewardConfigError, match=r"'video', 'style' scores latents .rank_local., 'read', 'more' compl"):
        _mixed(spec_of, ["video", "read", "style", "more"])
    _mixed(spec_of, ["video", "style"])
    _mixed(spec_of, ["read", "more"])


@pytest.mark.parametrize("kind", [ValueError, RewardContractError, RewardUnavailableError, RewardConfigError])
def test_an_error_holds_no_latent(kind: type[Exception], pickled: Callable[..., Any]) -> None:
    """The failing request of a rank-local provider stays behind, so the error can be sent to the other ranks."""
    worker = _worker(catalog={"video": _spec(error=kind("no"))})
    with pytest.raises(Exception, match="no") as caught:
        worker.score(_group("g", 0.0, 1.0))
    error: Any = caught.value
    assert (error.provider, error.group_id, error.request) == ("video", "g", None)
    assert str(pickled(error)) == str(error)


def test_an_evaluator_shows_its_providers() -> None:
    """Before a worker prepares it there are none; then each is there under its name, the one that evaluates."""
    evaluator = InProcessEvaluator()
    assert dict(evaluator.providers) == {}
    made = _Sampled()
    spec = RewardProviderSpec(
        factory=lambda: made, revision="1", terms=("video",), execution=ProviderExecution(rank_local=True)
    )
    _worker(catalog={"video": spec}, evaluator=evaluator)
    assert dict(evaluator.providers) == {"video": made}
    providers: Any = evaluator.providers
    with pytest.raises(TypeError, match="does not support item assignment"):
        providers["video"] = None


def test_a_function_of_one_candidate_may_score_latents() -> None:
    """`map_candidates` lifts a scorer of latents as it does one of texts."""

    def worth(candidate: Any, context: Any) -> RewardProviderResult:
        return RewardProviderResult({"video": candidate.latent.worth})

    spec = RewardProviderSpec(
        factory=lambda: map_candidates(worth),
        revision="1",
        terms=("video",),
        execution=ProviderExecution(rank_local=True),
    )
    batch = _group("g", 0.25, 0.75)
    _worker(catalog={"video": spec}).score(batch)
    assert [each.reward["final"] for each in batch] == [0.25, 0.75]


def test_latents_are_refused_by_pickle_on_the_way_to_another_process() -> None:
    """A bound group of latents can't be sent away by mistake."""
    (group,) = bind(_group("g", 0.0, 1.0), _selection(), 2)
    with pytest.raises(TypeError, match="not pickled: a latent stays on its rank"):
        pickle.dumps(group)
