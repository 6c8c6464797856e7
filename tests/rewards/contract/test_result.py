# SPDX-License-Identifier: Apache-2.0
"""Results are immutable records that judge nothing: the boundary does, where it can name the trajectory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from posttrain.rewards.contract.result import RewardCandidateResult, RewardGroupResult, RewardProviderResult
from posttrain.rewards.metrics.contribution import MetricContribution


def _result() -> RewardGroupResult:
    scores = RewardProviderResult(terms={"task": 0.5}, diagnostics={"calls": MetricContribution.total(2)})
    return RewardGroupResult(group_id="g", items=(RewardCandidateResult(trajectory_id="t", result=scores),))


def _parts() -> list[tuple[Any, str]]:
    group = _result()
    owners = (group, group.items[0], group.items[0].result)
    return [(owner, field) for owner in owners for field in owner.__struct_fields__]


@pytest.mark.parametrize(
    ("owner", "field"), _parts(), ids=lambda part: part if isinstance(part, str) else type(part).__name__
)
def test_no_field_can_be_written_or_deleted(owner: Any, field: str) -> None:
    """Every field of a group's, a candidate's and a provider's result refuses assignment and deletion."""
    with pytest.raises(AttributeError, match="immutable"):
        setattr(owner, field, None)
    with pytest.raises(AttributeError, match="immutable"):
        delattr(owner, field)


@pytest.mark.parametrize("terms", [{}, {"task": math.nan}, {"task": True}, {"task": None}, {1: 2}, None], ids=repr)
def test_results_check_nothing_when_made(terms: Any) -> None:
    """A bad term is kept as it came, so that the boundary can refuse it with the trajectory's name."""
    assert RewardProviderResult(terms).terms is terms


def test_results_share_no_default() -> None:
    """Diagnostics that were left out are an empty mapping of the result's own."""
    one, other = RewardProviderResult({"task": 1.0}), RewardProviderResult({"task": 1.0})
    assert one.diagnostics == {}
    assert one.diagnostics is not other.diagnostics


def test_a_result_survives_pickling_and_json(pickled: Callable[..., Any]) -> None:
    """Sent from another process or read from a journal, a result is the same."""
    result = _result()
    assert pickled(result) == result
    assert msgspec.json.decode(msgspec.json.encode(result), type=RewardGroupResult) == result


def test_a_result_needs_its_terms() -> None:
    """There is no default score."""
    with pytest.raises(TypeError, match="terms"):
        RewardProviderResult()  # type: ignore[call-arg]  # the mistake under test
