# SPDX-License-Identifier: Apache-2.0
"""What a worker says it is: every setting that decides what it writes is in its identity, and nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from posttrain.rewards import InProcessEvaluator, ProviderIdentity, RewardProviderSpec, RewardWorker, StageIdentity

Spec = Callable[..., RewardProviderSpec]

NULL = hashlib.sha256(b"null").hexdigest()


@pytest.fixture
def worker(spec_of: Spec) -> Callable[..., RewardWorker]:
    """A worker of two providers, with changes to its settings or to the spec of the first."""

    def make(*, spec: dict[str, Any] | None = None, terms: tuple[str, ...] = ("a",), **settings: Any) -> RewardWorker:
        catalog = {"one": spec_of(*terms, **(spec or {})), "two": spec_of("z"), "three": spec_of("y")}
        return RewardWorker(**{"catalog": catalog, "reward": ("one", "two"), "group_size": 4, **settings})

    return make


Make = Callable[..., RewardWorker]


def test_the_identity_names_every_selected_provider(worker: Make) -> None:
    """Catalog, name, revision and hash of each, in the order of the selection; None hashes as ``null``."""
    made = worker(spec={"semantic_identity": {"model": "m", "n": 1}, "revision": "r7"}, reward=("two", "one"))
    text = b'{"model":"m","n":1}'
    assert made.identity == (
        ProviderIdentity(None, "two", "1", NULL),
        ProviderIdentity(None, "one", "r7", hashlib.sha256(text).hexdigest()),
    )


def test_the_repr_shows_the_identity(worker: Make) -> None:
    """A log line with the worker in it says what scores."""
    shown = repr(worker(reward="two"))
    assert shown == (
        "RewardWorker(group_size=4, identity=(ProviderIdentity(catalog=None, provider='two', revision='1', "
        f"sha256='{NULL}'),))"
    )


def test_the_stage_identity_is_complete(worker: Make) -> None:
    """Each field as it was resolved: weights of all terms, policy and ceiling included."""
    made = worker(spec={"needs": ("prompt",)}, terms=("a", "b"), weights={"b": 2})
    assert made.stage_identity == StageIdentity(
        providers=(ProviderIdentity(None, "one", "1", NULL), ProviderIdentity(None, "two", "1", NULL)),
        needs={"one": ("prompt",), "two": ()},
        terms={"one": ("a", "b"), "two": ("z",)},
        weights={"a": 1.0, "b": 2.0, "z": 1.0},
        estimator="group_norm",
        group_size=4,
        on_unavailable="fail",
        max_dropped_fraction=0.1,
    )


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        ({"group_size": 8}, ["group_size: recorded 4, now 8"]),
        ({"estimator": "leave_one_out"}, ['estimator: recorded "group_norm", now "leave_one_out"']),
        ({"weights": {"z": 0.5}}, ["weights.z: recorded 1.0, now 0.5"]),
        ({"on_unavailable": "drop_group"}, ['on_unavailable: recorded "fail", now "drop_group"']),
        ({"max_dropped_fraction": 0.2}, ["max_dropped_fraction: recorded 0.1, now 0.2"]),
        ({"spec": {"revision": "2"}}, ['providers[0].revision: recorded "1", now "2"']),
        ({"spec": {"needs": ("prompt",)}}, ['needs.one: recorded [], now ["prompt"]']),
        (
            {"spec": {"semantic_identity": 1}},
            [f'providers[0].sha256: recorded "{NULL}", now "{hashlib.sha256(b"1").hexdigest()}"'],
        ),
        (
            {"terms": ("b",)},
            [
                'terms.one[0]: recorded "a", now "b"',
                "weights.a: recorded 1.0, now null",
                "weights.b: recorded null, now 1.0",
            ],
        ),
        (
            {"reward": ("two", "one")},
            ['providers[0].provider: recorded "one", now "two"', 'providers[1].provider: recorded "two", now "one"'],
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_every_setting_that_decides_a_score_is_in_it(worker: Make, change: dict[str, Any], lines: list[str]) -> None:
    """Another setting is another identity, and the difference says which."""
    recorded, now = worker().stage_identity, worker(**change).stage_identity
    assert now.differences(recorded) == lines
    assert now.sha256 != recorded.sha256


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"namespace": "val"},
        {"groups_in_flight": 7},
        {"evaluator": InProcessEvaluator()},
        {"weights": {"a": 1, "z": 1.0}},
        {"reward": ["one", "two"]},
        {"max_dropped_fraction": 0.1},
        {"spec": {"diagnostics": ("calls",)}},
    ],
    ids=lambda value: "-".join(value) or "nothing",
)
def test_what_decides_no_score_is_not_in_it(worker: Make, change: dict[str, Any]) -> None:
    """Where and under which name it is run does not matter, nor how a default is spelt out."""
    recorded, now = worker().stage_identity, worker(**change).stage_identity
    assert now.differences(recorded) == []
    assert now.sha256 == recorded.sha256


def test_a_recorded_identity_is_read_back(worker: Make) -> None:
    """Through JSON and back it is the same, hash and all."""
    identity = worker(weights={"z": 0.1}).stage_identity
    again = StageIdentity.from_json(identity.to_json())
    assert again == identity
    assert again.sha256 == identity.sha256
