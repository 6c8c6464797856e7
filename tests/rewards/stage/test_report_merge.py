# SPDX-License-Identifier: Apache-2.0
"""Reports merge exactly: any grouping over batches, actors and ranks gives the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from strategies import reports, wide_floats

Batch = Callable[..., list[Trajectory]]
Spec = Callable[..., RewardProviderSpec]
ReadOff = Callable[..., RewardGroupResult]


def _metrics(report: RewardReport) -> dict[str, str]:
    return {key: value.hex() for key, value in report.metrics().items()}


def _hexed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _hexed(item) for key, item in sorted(value.items()) if key != "seconds"}
    if isinstance(value, (list, tuple)):
        return [_hexed(item) for item in value]
    return value.hex() if isinstance(value, float) else value


def _state(report: RewardReport) -> Any:
    """Everything in a report but the sum of wall times, floats to the bit."""
    return _hexed(msgspec.to_builtins(report))


@given(data=st.data(), each=st.lists(reports(), min_size=1, max_size=5))
def test_any_order_and_grouping_gives_the_same_bits(data: st.DataObject, each: list[RewardReport]) -> None:
    """Merged in any tree, reports give the same state and the same metrics, to the bit."""
    in_order = each[0]
    for report in each[1:]:
        in_order = in_order.merge(report)
    piles = list(data.draw(st.permutations(each)))
    while len(piles) > 1:
        index = data.draw(st.integers(0, len(piles) - 2))
        piles[index : index + 2] = [piles[index].merge(piles[index + 1])]
    assert _state(piles[0]) == _state(in_order)
    assert _metrics(piles[0]) == _metrics(in_order)


@given(report=reports())
def test_an_empty_report_changes_nothing(report: RewardReport) -> None:
    """Nothing merged with a report, from either side, is that report."""
    nothing = RewardReport(namespace="train")
    assert _state(report.merge(nothing)) == _state(report) == _state(nothing.merge(report))


@given(report=reports(), other=reports())
def test_merging_changes_neither(report: RewardReport, other: RewardReport) -> None:
    """A merge makes a new report; the two stay as they were."""
    before = _state(report), _state(other)
    report.merge(other)
    assert (_state(report), _state(other)) == before


@st.composite
def _batches(draw: st.DrawFn) -> tuple[dict[str, list[float]], set[str]]:
    names = [f"g{number}" for number in range(draw(st.integers(2, 8)))]
    worth = st.lists(wide_floats, min_size=2, max_size=2)
    lost = draw(st.sets(st.sampled_from(names)))
    return {name: draw(worth) for name in names}, lost


@given(data=st.data(), batch=_batches(), limit=st.sampled_from([None, 1]))
def test_a_batch_in_parts_reports_what_the_whole_does(
    spec_of: Spec,
    read_off: ReadOff,
    batch_of: Batch,
    data: st.DataObject,
    batch: tuple[dict[str, list[float]], set[str]],
    limit: int | None,
) -> None:
    """Groups scored in any parts, in any order, and merged, give the report of the whole batch to the bit."""
    groups, lost = batch

    def evaluate(request: RewardGroupRequest) -> Any:
        if request.group_id in lost:
            raise RewardUnavailableError("no answer")
        honest = read_off(request, "task")
        items = [
            RewardCandidateResult(
                item.trajectory_id,
                RewardProviderResult(
                    item.result.terms,
                    {
                        "mean": MetricContribution.mean(item.result.terms["task"]),
                        "most": MetricContribution.maximum(item.result.terms["task"]),
                    },
                ),
            )
            for item in honest.items
        ]
        return RewardGroupResult(request.group_id, tuple(items))

    catalog = {"p": spec_of("task", evaluate=evaluate, diagnostics=("mean", "most"))}
    worker = RewardWorker(catalog=catalog, reward="p", group_size=2, on_unavailable="drop_group")
    whole = worker.stage.evaluate(batch_of(groups)).report
    order = data.draw(st.permutations(sorted(groups)))
    cuts = [*sorted(data.draw(st.sets(st.integers(1, len(order) - 1)))), len(order)]
    merged, start = RewardReport(namespace="train"), 0
    for cut in cuts:
        part = batch_of({name: groups[name] for name in order[start:cut]})
        merged = merged.merge(worker.stage.evaluate(part).report)
        start = cut
    assert _metrics(merged) == _metrics(whole)
    assert merged.dropped == whole.dropped
    assert merged.final == whole.final


def test_timings_add_up() -> None:
    """Wall times are summed, and the slowest group of all is kept; between equal ones the name decides."""
    one = ProviderReport(sample_count=2, seconds=1.5, slowest_seconds=1.0, slowest_group="a")
    other = ProviderReport(sample_count=4, seconds=2.5, slowest_seconds=1.0, slowest_group="b")
    expected = ProviderReport(sample_count=6, seconds=4.0, slowest_seconds=1.0, slowest_group="b")
    assert one.merge(other) == other.merge(one) == expected
    assert one.merge(ProviderReport()) == ProviderReport().merge(one) == one


def test_providers_and_causes_of_either_side_are_kept() -> None:
    """What only one side has is in the merged report as it was, what both have is added."""
    one = RewardReport(
        namespace="train",
        group_count=3,
        dropped={"judge: TimeoutError": 1, "judge: X": 1},
        providers={"judge": ProviderReport(sample_count=2)},
    )
    other = RewardReport(
        namespace="train",
        group_count=4,
        dropped={"judge: TimeoutError": 2},
        providers={"judge": ProviderReport(sample_count=4), "rules": ProviderReport(sample_count=8)},
    )
    merged = one.merge(other)
    assert merged.dropped == {"judge: TimeoutError": 3, "judge: X": 1}
    assert {name: each.sample_count for name, each in merged.providers.items()} == {"judge": 6, "rules": 8}
    assert (merged.group_count, merged.dropped_count, merged.scored_group_count) == (7, 4, 3)


@pytest.mark.parametrize(("one", "other"), [("train", "val"), ("val", "train")])
def test_namespaces_do_not_mix(one: Any, other: Any) -> None:
    """Training and validation are never merged into one number."""
    with pytest.raises(RewardContractError, match=f"can't merge a '{one}' report with a '{other}' one"):
        RewardReport(namespace=one).merge(RewardReport(namespace=other))


def test_kinds_do_not_mix() -> None:
    """One name that holds two kinds of metric is refused, and named with its provider."""
    one, other = (
        RewardReport(namespace="train", providers={"judge": ProviderReport(diagnostics={"calls": each})})
        for each in (MetricContribution.total(1.0), MetricContribution.mean(1.0))
    )
    with pytest.raises(
        RewardContractError,
        match=r"^provider 'judge': metric 'calls': can't merge metrics of different kinds: mean, total",
    ):
        one.merge(other)


@given(report=reports())
def test_a_report_survives_json(report: RewardReport) -> None:
    """Written as plain JSON and read again, a report is the same to the bit, and merges as before."""
    plain = msgspec.to_builtins(report)
    text = msgspec.json.encode(plain)
    again = msgspec.convert(msgspec.json.decode(text), RewardReport)
    assert again == report
    assert _state(again) == _state(report)
    assert msgspec.convert(plain, RewardReport) == report
    assert _state(again.merge(report)) == _state(report.merge(again))


def test_an_empty_report_survives_json() -> None:
    """A worker that has scored nothing can still say so."""
    nothing = RewardReport(namespace="val")
    text = msgspec.json.encode(msgspec.to_builtins(nothing))
    assert msgspec.convert(msgspec.json.decode(text), RewardReport) == nothing
    assert msgspec.convert({"namespace": "val"}, RewardReport) == nothing


def test_another_namespace_is_refused_when_read() -> None:
    """A record of an unknown namespace is not taken for one of the two."""
    with pytest.raises(msgspec.ValidationError, match="test"):
        msgspec.convert({"namespace": "test"}, RewardReport)


@given(report=reports())
def test_a_report_survives_pickle(pickled: Callable[..., Any], report: RewardReport) -> None:
    """It travels between processes as it is."""
    assert _state(pickled(report)) == _state(report)
