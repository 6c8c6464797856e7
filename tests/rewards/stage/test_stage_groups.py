# SPDX-License-Identifier: Apache-2.0
"""Groups are what shares a group id: no position, stride or text decides, and no order changes a bit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.rewards import ProviderExecution, RewardProviderSpec, RewardWorker
from posttrain.rewards.stage.estimators import ESTIMATORS
from posttrain.schema import Trajectory
from strategies import wide_floats

Batch = Callable[..., list[Trajectory]]
Spec = Callable[..., RewardProviderSpec]


@st.composite
def _worths(draw: st.DrawFn) -> dict[str, list[dict[str, float]]]:
    size = draw(st.integers(1, 4))
    worth = st.fixed_dictionaries({"a": wide_floats, "b": wide_floats})
    rows = draw(st.lists(st.lists(worth, min_size=size, max_size=size), min_size=1, max_size=5))
    return {f"g{number}": row for number, row in enumerate(rows)}


def _written(batch: list[Trajectory]) -> dict[str, tuple[str, str]]:
    return {each.trajectory_id: (repr(each.reward), repr(each.advantage)) for each in batch}


@given(
    data=st.data(),
    worths=_worths(),
    estimator=st.sampled_from(sorted(ESTIMATORS)),
    limit=st.sampled_from([1, 3]),
)
def test_any_order_of_rows_gives_each_its_own(
    spec_of: Spec,
    batch_of: Batch,
    data: st.DataObject,
    worths: dict[str, list[dict[str, float]]],
    estimator: str,
    limit: int,
) -> None:
    """However the rows of a batch are mixed, each trajectory gets the same terms and the same advantage, to the bit."""
    execution = ProviderExecution(groups_in_flight=limit)
    catalog = {"one": spec_of("a", execution=execution), "two": spec_of("b")}
    size = len(worths["g0"])
    # A weight of 0 for one term keeps sums of the largest floats in range, a half the other.
    worker = RewardWorker(
        catalog=catalog, reward=("one", "two"), group_size=size, estimator=estimator, weights={"a": 0.5, "b": 0.0}
    )
    in_order = batch_of(worths)
    worker.score(in_order)
    mixed = data.draw(st.permutations(batch_of(worths)))
    worker.score(mixed)
    assert _written(mixed) == _written(in_order)


def test_groups_come_in_the_order_of_their_first_rows(spec_of: Spec, batch_of: Batch) -> None:
    """Interleaved rows are sorted into their groups; groups and candidates keep the order in which they came."""
    rows = batch_of({"x": [0, 1], "y": [2, 3], "z": [4, 5]})
    mixed = [rows[at] for at in (3, 4, 1, 0, 5, 2)]
    worker = RewardWorker(catalog={"p": spec_of("task")}, reward="p", group_size=2)
    outcome = worker.compute(mixed)
    expected = [("y", ("y/1", "y/0")), ("z", ("z/0", "z/1")), ("x", ("x/1", "x/0"))]
    assert [(group.group_id, group.trajectory_ids) for group in outcome.groups] == expected
    assert [group.final for group in outcome.groups] == [(3.0, 2.0), (4.0, 5.0), (1.0, 0.0)]


@pytest.mark.parametrize("order", ["aabb", "abab", "abba", "bbaa"])
def test_a_stride_is_no_group(spec_of: Spec, batch_of: Batch, order: str) -> None:
    """Side by side, alternating or nested, the rows of a group find each other."""
    rows = {"a": iter(batch_of({"a": [1.0, 3.0]})), "b": iter(batch_of({"b": [10.0, 30.0]}))}
    batch = [next(rows[name]) for name in order]
    RewardWorker(catalog={"p": spec_of("task")}, reward="p", group_size=2, estimator="group_mean").score(batch)
    assert {each.trajectory_id: each.advantage for each in batch} == {
        "a/0": -1.0,
        "a/1": 1.0,
        "b/0": -10.0,
        "b/1": 10.0,
    }


def test_a_batch_wide_estimator_sees_all_groups(spec_of: Spec, batch_of: Batch) -> None:
    """The spread of the batch is taken over every scored group before the first is annotated."""
    worker = RewardWorker(catalog={"p": spec_of("task")}, reward="p", group_size=2, estimator="group_mean_batch_std")
    alone, together = batch_of({"a": [1.0, 3.0]}), batch_of({"a": [1.0, 3.0], "b": [5.0, 11.0]})
    worker.score(alone)
    worker.score(together)
    # Alone: mean 2, population deviation 1. Together: mean 5, squared distances 16 4 0 36 over 4.
    assert alone[1].advantage == 1 / (1 + 1e-4)
    assert together[1].advantage == pytest.approx(1 / (14**0.5 + 1e-4), rel=1e-14)


def test_a_group_of_one_is_scored(spec_of: Spec, batch_of: Batch) -> None:
    """With groups of one each trajectory has its reward, and nothing to be better than."""
    batch = batch_of({"a": [1.0], "b": [3.0]})
    report = RewardWorker(catalog={"p": spec_of("task")}, reward="p", group_size=1).score(batch)
    assert [(each.reward["final"], each.advantage) for each in batch] == [(1.0, 0.0), (3.0, 0.0)]
    assert report.metrics()["train/group/zero_spread_fraction"] == 1.0
