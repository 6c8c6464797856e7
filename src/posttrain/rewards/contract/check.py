# SPDX-License-Identifier: Apache-2.0
"""Check what a provider returned against its spec and its request, once per group.

The common case is decided by a few passes at C speed; only a result that fails one of them is walked slowly, to name
every offender. Nothing is ever broadcast, re-sorted or filled in.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator, Mapping
from math import isfinite
from operator import attrgetter, itemgetter
from typing import Any, TypeAlias

from posttrain.errors import RewardContractError, describe, listing
from posttrain.rewards.contract.request import RewardGroupRequest
from posttrain.rewards.contract.result import RewardCandidateResult, RewardGroupResult, RewardProviderResult
from posttrain.rewards.contract.spec import RewardProviderSpec
from posttrain.rewards.metrics.contribution import MetricContribution, merge_all
from posttrain.rewards.metrics.real import as_real, why_not_real

__all__ = ["Columns", "check_result"]

Columns: TypeAlias = dict[str, tuple[float, ...]]
"""Term to its values, [group_size], in the order of the request."""

_ids = attrgetter("trajectory_id")
_results = attrgetter("result")
_terms = attrgetter("terms")
_diagnostics = attrgetter("diagnostics")

_ITEM = {RewardCandidateResult}
_RESULT = {RewardProviderResult}
_PLAIN = {dict}
_FLOAT = {float}
_TEXT = {str}


def check_result(
    spec: RewardProviderSpec,
    request: RewardGroupRequest[Any],
    result: RewardGroupResult,
    trajectory_ids: list[str] | None = None,
) -> tuple[Columns, dict[str, MetricContribution]]:
    """The terms as columns of Python floats, and each diagnostic merged over the group.

    Args:
        spec: what the provider declared.
        request: what it was asked.
        result: what it returned.
        trajectory_ids: the request's, in its order, where the caller has them already.

    Raises:
        RewardContractError: the result is not of the contract's types, repeats another group id or other trajectory
            ids or another order, misses a declared term, holds an undeclared one, or holds a value that is not one
            real finite number. Every offender is named; `trajectory_id` is set when there is exactly one.
    """
    if type(result) is not RewardGroupResult and not isinstance(result, RewardGroupResult):
        raise RewardContractError(f"evaluate returned {_what(result)}, expected a RewardGroupResult")
    if type(result.items) is not tuple:
        raise RewardContractError(f"items is {describe(result.items)}, expected a tuple: write items=tuple(items)")
    if not isinstance(result.group_id, str) or result.group_id != request.group_id:
        raise RewardContractError(
            f"the result is for group {describe(result.group_id)}, expected {request.group_id!r}: "
            "repeat request.group_id"
        )
    items = result.items
    wanted = list(map(_ids, request.candidates)) if trajectory_ids is None else trajectory_ids
    if len(spec.terms) == 1 and (column := _plain_column(spec.terms[0], items, wanted)) is not None:
        return {spec.terms[0]: column}, {}
    if set(map(type, items)) != _ITEM or not _repeats(wanted, list(map(_ids, items))):
        _check_items(items, wanted)
    results = list(map(_results, items))
    if set(map(type, results)) != _RESULT:
        _check_types(wanted, results)
    rows = list(map(_terms, results))
    columns = _fast_columns(spec.terms, rows)
    if columns is None:
        columns = _slow_columns(spec.terms, wanted, rows)
    extras = list(map(_diagnostics, results))
    if set(map(type, extras)) == _PLAIN and not any(extras):
        return columns, {}
    return columns, _merged(spec.diagnostics, wanted, extras)


def _plain_column(term: str, items: tuple[Any, ...], wanted: list[str]) -> tuple[float, ...] | None:
    """The one term of a result that is exactly as it should be and has no diagnostics; None: look closer."""
    if len(items) != len(wanted):
        return None
    column = []
    for item, trajectory_id in zip(items, wanted, strict=True):
        if type(item) is not RewardCandidateResult or (
            (own := item.trajectory_id) is not trajectory_id and (type(own) is not str or own != trajectory_id)
        ):
            return None
        result = item.result
        if type(result) is not RewardProviderResult or type(result.diagnostics) is not dict or result.diagnostics:
            return None
        terms = result.terms
        if type(terms) is not dict or len(terms) != 1:
            return None
        value = terms.get(term)
        if type(value) is not float:
            return None
        column.append(value)
    return tuple(column) if all(map(isfinite, column)) else None


def _repeats(wanted: list[str], got: list[Any]) -> bool:
    return set(map(type, got)) == _TEXT and got == wanted


def _fast_columns(terms: tuple[str, ...], rows: list[Mapping[str, Any]]) -> Columns | None:
    if set(map(type, rows)) != _PLAIN or set(map(len, rows)) != {len(terms)}:
        return None
    columns = {}
    for term in terms:
        try:
            column = tuple(map(itemgetter(term), rows))
        except KeyError:
            return None
        if set(map(type, column)) != _FLOAT or not all(map(isfinite, column)):
            return None
        columns[term] = column
    return columns


def _slow_columns(terms: tuple[str, ...], ids: list[str], rows: list[Any]) -> Columns:
    faults = [
        (trajectory_id, fault)
        for trajectory_id, row in zip(ids, rows, strict=True)
        for fault in _row_faults(terms, row)
    ]
    if faults:
        _refuse("the terms are not what the spec declares", faults)
    return {term: tuple([_real(row[term]) for row in rows]) for term in terms}


def _real(value: object) -> float:
    real = as_real(value)
    if real is None:
        # The value changed between two looks at it: an array that another thread writes, for example.
        raise RewardContractError(f"a term's value changed while it was checked: {describe(value)}")
    return real


def _row_faults(terms: tuple[str, ...], row: Any) -> Iterator[str]:
    if not isinstance(row, Mapping):
        yield f"terms is {describe(row)}, expected a mapping from term to float"
        return
    for term in terms:
        if term not in row:
            yield f"term {term!r} is missing"
        elif as_real(row[term]) is None:
            yield f"term {term!r}: expected one finite number, {why_not_real(row[term])}"
    for term in row:
        if term not in terms:
            yield f"term {describe(term)} is not declared; the spec's terms are {', '.join(terms)}"


def _check_items(items: tuple[Any, ...], wanted: list[str]) -> None:
    """Raise unless all items are the contract's type and correlate one to one, in order."""
    strangers = [f"items[{index}]: {_what(it)}" for index, it in enumerate(items) if not _is_item(it)]
    if strangers:
        raise RewardContractError(f"items holds what is no RewardCandidateResult:\n{listing(strangers)}")
    got = [item.trajectory_id for item in items]
    odd = [f"items[{index}]: {describe(each)}" for index, each in enumerate(got) if not isinstance(each, str)]
    if odd:
        raise RewardContractError(f"items holds a trajectory_id that is no string:\n{listing(odd)}")
    if got == wanted:
        return
    counts, known = Counter(got), set(wanted)
    missing = [each for each in wanted if each not in counts]
    foreign = [each for each in counts if each not in known]
    repeated = [each for each, times in counts.items() if times > 1]
    faults = [
        *(f"missing: {each!r}" for each in missing),
        *(f"not asked for: {each!r}" for each in foreign),
        *(f"more than once: {each!r}" for each in repeated),
    ]
    if not faults:
        faults = [
            f"at [{index}]: expected {want!r}, got {have!r}"
            for index, (want, have) in enumerate(zip(wanted, got, strict=True))
            if want != have
        ]
    offenders = {*missing, *foreign, *repeated}
    raise RewardContractError(
        f"the result has {len(got)} items for {len(wanted)} candidates, or not in their order:\n{listing(faults)}\n"
        "Return one item per candidate, in the order of request.candidates.",
        trajectory_id=offenders.pop() if len(offenders) == 1 and not foreign else None,
    )


def _is_item(item: object) -> bool:
    return isinstance(item, RewardCandidateResult)


def _check_types(ids: list[str], results: list[Any]) -> None:
    faults = [
        (trajectory_id, f"{_what(result)}, expected a RewardProviderResult")
        for trajectory_id, result in zip(ids, results, strict=True)
        if not isinstance(result, RewardProviderResult)
    ]
    if faults:
        _refuse("a candidate's result is of the wrong type", faults)


def _merged(declared: tuple[str, ...], ids: list[str], rows: list[Any]) -> dict[str, MetricContribution]:
    faults = [
        (trajectory_id, fault)
        for trajectory_id, row in zip(ids, rows, strict=True)
        for fault in _diagnostic_faults(declared, row)
    ]
    if faults:
        _refuse("the diagnostics are not what the spec declares", faults)
    merged = {}
    for name in declared:
        contributions = [row[name] for row in rows if name in row]
        if contributions:
            try:
                merged[name] = merge_all(contributions)
            except RewardContractError as error:
                raise RewardContractError(f"diagnostic {name!r}: {error.message}") from error
    return merged


def _diagnostic_faults(declared: tuple[str, ...], row: Any) -> Iterator[str]:
    if not isinstance(row, Mapping):
        yield f"diagnostics is {describe(row)}, expected a mapping from name to MetricContribution"
        return
    for name, value in row.items():
        if name not in declared:
            known = ", ".join(declared) or "none"
            yield f"diagnostic {describe(name)} is not declared; the spec's diagnostics are {known}"
        elif not isinstance(value, MetricContribution):
            yield f"diagnostic {name!r} is {describe(value)}: write MetricContribution.mean(value)"
        elif not value.is_sound:
            yield f"diagnostic {name!r} was not made by mean, total, minimum or maximum: {describe(value)}"


def _refuse(headline: str, faults: list[tuple[str, str]]) -> None:
    lines = [f"{trajectory_id}: {fault}" for trajectory_id, fault in faults]
    offenders = {trajectory_id for trajectory_id, _ in faults}
    raise RewardContractError(
        f"{headline}:\n{listing(lines)}", trajectory_id=offenders.pop() if len(offenders) == 1 else None
    )


def _what(result: object) -> str:
    if inspect.iscoroutine(result):
        result.close()
        return "a coroutine (evaluate and scorers are synchronous: drop the async)"
    return describe(result)
