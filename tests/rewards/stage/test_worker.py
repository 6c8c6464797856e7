# SPDX-License-Identifier: Apache-2.0
"""Construction finds every fault of a setup before a batch is touched; evaluators are injected."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from posttrain.errors import RewardConfigError, RewardContractError, RewardUnavailableError
from posttrain.rewards import (
    GroupScores,
    ProviderExecution,
    RewardCatalog,
    RewardProviderSpec,
    RewardWorker,
)
from posttrain.rewards.stage.bind import BoundGroup
from posttrain.rewards.stage.evaluator import GroupEvaluation
from posttrain.rewards.stage.prepare import Selection
from posttrain.schema import Trajectory

Batch = Callable[..., list[Trajectory]]
Spec = Callable[..., RewardProviderSpec]


def test_every_wrong_setting_is_named_at_once(spec_of: Spec) -> None:
    """Size, namespace, policy and ceiling are checked together, each with what was expected and what came."""
    settings: dict[str, Any] = {
        "group_size": 0, "namespace": "test", "on_unavailable": "skip", "max_dropped_fraction": 1.5,
    }  # fmt: skip  # one a line says no more
    with pytest.raises(RewardConfigError, match="the stage's settings are not valid") as caught:
        RewardWorker(catalog={"p": spec_of("task")}, reward="p", **settings)
    assert caught.value.message.splitlines()[1:] == [
        "  group_size: expected an int of at least 1, got 0 (int)",
        "  namespace: expected one of train, val, got 'test' (str)",
        "  on_unavailable: expected one of fail, drop_group, got 'skip' (str)",
        "  max_dropped_fraction: expected a number in [0, 1], got 1.5 (float)",
    ]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"group_size": True}, "group_size: expected an int of at least 1, got True (bool)"),
        ({"group_size": 2.0}, "group_size: expected an int of at least 1, got 2.0 (float)"),
        ({"group_size": None}, "group_size: expected an int of at least 1, got None"),
        ({"namespace": None}, "namespace: expected one of train, val, got None"),
        ({"namespace": ["train"]}, "namespace: expected one of train, val, got ['train'] (list)"),
        ({"on_unavailable": "zero"}, "on_unavailable: expected one of fail, drop_group, got 'zero' (str)"),
        ({"max_dropped_fraction": -0.1}, "max_dropped_fraction: expected a number in [0, 1], got -0.1 (float)"),
        ({"max_dropped_fraction": True}, "max_dropped_fraction: expected a number in [0, 1], got True (bool)"),
        ({"max_dropped_fraction": float("nan")}, "max_dropped_fraction: expected a number in [0, 1], got nan (float)"),
        ({"max_dropped_fraction": "0.1"}, "max_dropped_fraction: expected a number in [0, 1], got '0.1' (str)"),
        ({"estimator": "grpo"}, "estimator: expected one of group_norm, "),
        ({"weights": {"tusk": 1.0}}, "weights for unknown terms 'tusk'; the terms are task"),
        ({"weights": {"task": None}}, "weight of 'task': expected a finite number, got None"),
        ({"groups_in_flight": 0}, "groups_in_flight: expected an int of at least 1, got 0 (int)"),
        ({"reward": "q"}, "no provider is named 'q'"),
        ({"reward": ("p", "q")}, "no provider is named 'q'"),
        ({"reward": ()}, "reward: expected the name of a provider or several, got none"),
        ({"catalog": [("p", 1)]}, "a catalog is a mapping from provider name to RewardProviderSpec, got "),
        ({"catalog": {"p": 1}}, "'p': expected a RewardProviderSpec, got 1 (int)"),
        ({"catalog": "no_such_module:catalog"}, "catalog module 'no_such_module' can't be found"),
    ],
)
def test_a_wrong_setup_is_refused(spec_of: Spec, settings: dict[str, Any], message: str) -> None:
    """Each argument that is at fault is named, with what was expected and what came."""
    defaults: dict[str, Any] = {"catalog": {"p": spec_of("task")}, "reward": "p", "group_size": 2}
    with pytest.raises(RewardConfigError, match=re.escape(message)):
        RewardWorker(**{**defaults, **settings})


def test_a_failing_factory_is_named(spec_of: Spec) -> None:
    """A factory that raises, or makes something else than a provider, is found at construction."""

    def broken() -> Any:
        raise OSError("no model here")

    with pytest.raises(RewardConfigError, match=r"^provider 'p': the factory raised OSError: no model here$") as caught:
        RewardWorker(catalog={"p": spec_of("task", factory=broken)}, reward="p", group_size=2)
    assert type(caught.value.__cause__) is OSError
    with pytest.raises(RewardConfigError, match=r"^provider 'p': the factory made .*\n  it has no evaluate"):
        RewardWorker(catalog={"p": spec_of("task", factory=dict)}, reward="p", group_size=2)


def test_only_selected_providers_are_constructed(spec_of: Spec) -> None:
    """What a run does not use is not made, so it can't fail the run either."""

    def unwanted() -> Any:
        raise AssertionError("it was constructed")

    catalog = {"p": spec_of("task"), "unused": spec_of("other", factory=unwanted)}
    RewardWorker(catalog=catalog, reward="p", group_size=2)


def test_built_ins_need_no_catalog(batch_of: Batch) -> None:
    """Without a catalog the built-in providers are there, and with one they are there too."""
    batch = batch_of({"g": [1.0, 2.0]})
    RewardWorker(reward="nonempty", group_size=2).score(batch)
    assert all(each.reward["final"] == 1.0 for each in batch)
    RewardWorker(catalog={}, reward=("nonempty", "constant"), group_size=2)


@pytest.mark.parametrize("reward", ["p", ["p"], ("p",)])
def test_one_provider_or_several(spec_of: Spec, batch_of: Batch, reward: Any) -> None:
    """A name alone is a selection of one."""
    batch = batch_of({"g": [1.0, 2.0]})
    RewardWorker(catalog=RewardCatalog({"p": spec_of("task")}), reward=reward, group_size=2).score(batch)
    assert [each.reward["final"] for each in batch] == [1.0, 2.0]


def test_a_catalog_is_loaded_by_its_path(tmp_path: Path, batch_of: Batch) -> None:
    """A path is resolved at construction, and recorded in the identity."""
    (tmp_path / "mine.py").write_text(
        "from functools import partial\n"
        "from posttrain.rewards import RewardProviderResult, RewardProviderSpec, map_candidates\n"
        "def length(candidate, context):\n"
        "    return RewardProviderResult({'length': len(candidate.completion)})\n"
        "def catalog():\n"
        "    factory = partial(map_candidates, length)\n"
        "    return {'length': RewardProviderSpec(factory=factory, revision='7', terms=('length',))}\n"
    )
    worker = RewardWorker(catalog=f"{tmp_path / 'mine.py'}:catalog", reward="length", group_size=2)
    batch = batch_of({"g": [1.0, 2.25]})
    worker.score(batch)
    # The completions are {"task": 1.0} and {"task": 2.25}.
    assert [each.reward for each in batch] == [{"length": 13.0, "final": 13.0}, {"length": 14.0, "final": 14.0}]
    (identity,) = worker.identity
    assert (identity.provider, identity.revision) == ("length", "7")
    assert identity.catalog is not None
    assert re.search(r"mine\.py@sha256:[0-9a-f]{64}:catalog$", identity.catalog)


class _Elsewhere:
    """An evaluator that gives every candidate 0.5, and logs what the worker asks of it."""

    groups_in_flight = 1

    def __init__(self) -> None:
        self.log: list[Any] = []

    def prepare(self, selection: Selection, groups_in_flight: int | None) -> None:
        self.log.append(("prepare", selection.names, groups_in_flight))

    def open(self) -> None:
        self.log.append("open")

    def evaluate(self, groups: Sequence[BoundGroup], *, collect_unavailable: bool) -> list[GroupEvaluation]:
        self.log.append(("evaluate", [group.group_id for group in groups], collect_unavailable))
        scored: list[GroupEvaluation] = [
            (GroupScores("p", group.group_id, group.trajectory_ids, {"task": (0.5,) * len(group.trajectory_ids)}),)
            for group in groups
        ]
        if collect_unavailable:
            scored[0] = RewardUnavailableError("the actor is gone", provider="p", group_id=groups[0].group_id)
        return scored

    def close(self) -> None:
        self.log.append("close")


@pytest.mark.parametrize("policy", ["fail", "drop_group"])
def test_groups_may_be_evaluated_elsewhere(spec_of: Spec, batch_of: Batch, policy: Any) -> None:
    """A worker prepares the evaluator that it is given, opens it, hands it bound groups, and closes it."""
    elsewhere = _Elsewhere()
    worker = RewardWorker(
        catalog={"p": spec_of("task", execution=ProviderExecution(groups_in_flight=8))},
        reward="p",
        group_size=2,
        groups_in_flight=3,
        evaluator=elsewhere,
        on_unavailable=policy,
        max_dropped_fraction=0.5,
    )
    assert elsewhere.log == [("prepare", ("p",), 3)]
    batch = batch_of({"a": [1.0, 2.0], "b": [1.0, 2.0]})
    with worker:
        report = worker.score(batch)
    asked = ("evaluate", ["a", "b"], policy == "drop_group")
    assert elsewhere.log[1:] == ["open", "open", asked, "close"]
    assert [each.reward.get("final") for each in batch] == ([None, None] if policy == "drop_group" else [0.5, 0.5]) + [
        0.5,
        0.5,
    ]
    assert report.dropped == ({"p: RewardUnavailableError": 1} if policy == "drop_group" else {})


class _Swapping(_Elsewhere):
    """The same, but the scores come back for the groups in another order, or for the candidates in another."""

    def __init__(self, *, groups: bool) -> None:
        super().__init__()
        self._groups = groups

    def evaluate(self, groups: Sequence[BoundGroup], *, collect_unavailable: bool) -> list[GroupEvaluation]:
        scored = super().evaluate(groups, collect_unavailable=collect_unavailable)
        if self._groups:
            return scored[::-1]
        first = scored[0]
        assert isinstance(first, tuple)
        return [(replace(first[0], trajectory_ids=first[0].trajectory_ids[::-1]),), *scored[1:]]


@pytest.mark.parametrize("groups", [True, False], ids=["groups", "candidates"])
def test_scores_that_come_back_in_another_order_are_refused(spec_of: Spec, batch_of: Batch, groups: bool) -> None:
    """An evaluator that mixes up groups or candidates on the way is found out before anything is computed from it."""
    worker = RewardWorker(catalog={"p": spec_of("task")}, reward="p", group_size=2, evaluator=_Swapping(groups=groups))
    group = "b" if groups else "a"
    with pytest.raises(
        RewardContractError,
        match=rf"^provider 'p', group 'a': the evaluator returned scores of group '{group}' with \('{group}/",
    ):
        worker.compute(batch_of({"a": [1.0, 2.0], "b": [1.0, 2.0]}))


def test_a_worker_can_not_be_given_other_attributes(spec_of: Spec) -> None:
    """A misspelt setting after construction is an error, not a silent attribute."""
    worker = RewardWorker(catalog={"p": spec_of("task")}, reward="p", group_size=2)
    with pytest.raises(AttributeError, match="group_sise"):
        worker.group_sise = 4  # type: ignore[attr-defined]  # the mistake under test
    with pytest.raises(AttributeError, match="cannot assign to field 'group_size'"):
        worker.stage.group_size = 4  # type: ignore[misc]  # the mistake under test


def test_settings_names_and_weights_are_refused_together() -> None:
    """A size, an estimator and a provider that are wrong take one run to find; what is right is not named."""
    with pytest.raises(RewardConfigError, match="group_size: expected an int of at least 1, got 0") as caught:
        RewardWorker(reward="gsm8", group_size=0, estimator="group_nrm")
    assert "estimator: expected one of group_norm" in str(caught.value)
    assert "no provider is named 'gsm8'; did you mean 'gsm8k'?" in str(caught.value)
    assert "namespace" not in str(caught.value)
