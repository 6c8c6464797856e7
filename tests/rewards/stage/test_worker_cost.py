# SPDX-License-Identifier: Apache-2.0
"""What a candidate costs does not grow with the number of groups or with their size; counted, not timed."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from posttrain.rewards import RewardProviderSpec, RewardWorker
from posttrain.schema import Trajectory

Batch = Callable[..., list[Trajectory]]
Spec = Callable[..., RewardProviderSpec]


def _calls(run: Callable[[], object]) -> int:
    """How many calls of Python and C functions it takes."""
    count = 0

    def tally(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    outer = sys.getprofile()
    sys.setprofile(tally)
    try:
        run()
    finally:
        sys.setprofile(outer)
    return count


def _worker(spec_of: Spec, size: int, providers: int) -> RewardWorker:
    catalog = {f"p{at}": spec_of(f"t{at}", needs=("prompt", "reference")) for at in range(providers)}
    return RewardWorker(catalog=catalog, reward=tuple(catalog), group_size=size, estimator="group_mean_batch_std")


def _batch(batch_of: Batch, groups: int, size: int, *, interleaved: bool = False) -> list[Trajectory]:
    worth = [{f"t{at}": float(index) for at in range(2)} for index in range(size)]
    batch = batch_of({f"g{number}": worth for number in range(groups)})
    for each in batch:
        each.reward = {"step": 1.0, "final": 2.0}
    return [batch[at] for start in range(size) for at in range(start, len(batch), size)] if interleaved else batch


@pytest.mark.parametrize("interleaved", [False, True], ids=["in order", "interleaved"])
@pytest.mark.parametrize("providers", [1, 2])
def test_calls_per_candidate_do_not_grow_with_the_groups(
    spec_of: Spec, batch_of: Batch, providers: int, interleaved: bool
) -> None:
    """Sixteen times the groups take at most sixteen times the calls."""
    worker = _worker(spec_of, 4, providers)
    worker.score(_batch(batch_of, 4, 4))
    few, many = (_batch(batch_of, groups, 4, interleaved=interleaved) for groups in (25, 400))
    assert _calls(lambda: worker.score(many)) <= 16 * _calls(lambda: worker.score(few))


def test_calls_per_candidate_do_not_grow_with_the_group(spec_of: Spec, batch_of: Batch) -> None:
    """Sixteen times the candidates in a group take at most sixteen times the calls."""
    small, large = _worker(spec_of, 16, 1), _worker(spec_of, 256, 1)
    few, many = _batch(batch_of, 4, 16), _batch(batch_of, 4, 256)
    small.score(_batch(batch_of, 4, 16))
    large.score(_batch(batch_of, 4, 256))
    assert _calls(lambda: large.score(many)) <= 16 * _calls(lambda: small.score(few))


def _peak(run: Callable[[], Any]) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_per_candidate_does_not_grow_with_the_groups(spec_of: Spec, batch_of: Batch) -> None:
    """Eight times the groups take about eight times the memory at most, and a few kilobytes a candidate."""
    worker = _worker(spec_of, 4, 1)
    worker.score(_batch(batch_of, 4, 4))
    few, many = _batch(batch_of, 50, 4), _batch(batch_of, 400, 4)
    small, large = _peak(lambda: worker.score(few)), _peak(lambda: worker.score(many))
    assert large <= 8 * small * 1.25
    assert large / len(many) < 8_000


def test_long_completions_are_not_copied(batch_of: Batch) -> None:
    """A stage over completions of a megabyte needs no second megabyte."""
    worker = RewardWorker(reward="nonempty", group_size=4)
    batch = batch_of({"g": [1.0, 2.0, 3.0, 4.0]})
    for each in batch:
        each.completion = "x" * 1_000_000
    worker.score(batch)
    assert _peak(lambda: worker.score(batch)) < 500_000
