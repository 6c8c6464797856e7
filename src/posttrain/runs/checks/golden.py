# SPDX-License-Identifier: Apache-2.0
"""Completions that are known to be good, scored by the providers that a run will use.

The operator's function takes a row's prompt and reference and gives one completion or a list of them. They are scored
in whole groups of the run's size: a provider never sees a part of one. Where there are too few to fill a group they
are repeated, and every one is shown once.
"""

from __future__ import annotations

import copy
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final, TypeAlias, final

import msgspec

from posttrain.data import group_trajectories
from posttrain.errors import RewardConfigError, RewardContractError, RewardError, describe
from posttrain.rewards.stage.bind import BoundGroup, bind
from posttrain.rewards.stage.boundary import GroupScores, evaluate_group
from posttrain.rewards.stage.prepare import PreparedProvider, Selection
from posttrain.runs.checks.contained import contained
from posttrain.runs.checks.report import GoldenScore
from posttrain.schema import Observation

__all__ = ["GoldenFn", "GoldenGroup", "golden_groups", "load_golden", "score_golden"]

GoldenFn: TypeAlias = Callable[[Any, Any], "str | Sequence[str]"]
"""Takes a row's prompt and its reference (None: it has none); gives a completion that deserves a reward, or several."""

_SHOWN: Final = 60


@final
class GoldenGroup(msgspec.Struct, frozen=True):
    """One group of golden completions of one row."""

    observation: Observation
    completions: tuple[str, ...]
    """At most as many as the group is large."""


def load_golden(path: str) -> GoldenFn:
    """The function of ``package.module:function`` or ``file.py:function``.

    Raises:
        RewardConfigError: it has no such form, can't be imported, or names no function.
    """
    where, colon, name = path.rpartition(":")
    is_file = where.endswith(".py")
    if not colon or not name.isidentifier() or not (is_file or all(map(str.isidentifier, where.split(".")))):
        raise RewardConfigError(f"golden: expected package.module:function or file.py:function, got {path!r}")
    try:
        with contained("it"):
            module = _file_module(where) if is_file else importlib.import_module(where)
    except RewardConfigError as error:
        raise RewardConfigError(f"golden: {where} can't be imported: {error.message}") from error
    found: Any = getattr(module, name, None)
    if not callable(found):
        raise RewardConfigError(f"golden: {path} has to be a function (prompt, reference), got {describe(found)}")
    function: GoldenFn = found
    return function


def _file_module(file: str) -> Any:
    spec = importlib.util.spec_from_file_location("posttrain_golden", Path(file).resolve())
    if spec is None or spec.loader is None:
        raise RewardConfigError("it is no Python file")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def golden_groups(
    function: GoldenFn, observations: Sequence[Observation], group_size: int
) -> tuple[list[GoldenGroup], list[RewardError]]:
    """The groups of every row for which the function gives completions, and an error for every other."""
    groups, errors = [], list[RewardError]()
    for observation in observations:
        try:
            with contained("the golden function"):
                completions = _completions(function, observation)
        except RewardError as error:
            errors.append(RewardContractError(f"row {observation.row_id!r}: {error.message}"))
            continue
        for number, start in enumerate(range(0, len(completions), group_size)):
            part = completions[start : start + group_size]
            groups.append(GoldenGroup(replace(observation, id=f"{observation.id}-{number}"), part))
    return groups, errors


def _completions(function: GoldenFn, observation: Observation) -> tuple[str, ...]:
    # Copies: what it changes must not reach a provider.
    given = function(copy.deepcopy(observation.prompt), copy.deepcopy(observation.reference))
    completions = (given,) if isinstance(given, str) else given
    is_list = isinstance(completions, (list, tuple)) and len(completions) > 0
    if not is_list or not all(isinstance(each, str) for each in completions):
        raise RewardContractError(
            f"the golden function: expected a completion or a list of them, got {describe(given)}"
        )
    return tuple(completions)


def score_golden(
    groups: Sequence[GoldenGroup], selection: Selection, prepared: Mapping[str, PreparedProvider], group_size: int
) -> tuple[list[GoldenScore], list[RewardError]]:
    """What each selected provider gives each golden completion, and an error for each group that it did not score.

    A provider that says that its service is down, or that it is set up wrongly, is not asked again.
    """
    scores, errors = list[GoldenScore](), list[RewardError]()
    bound = [_bound(group, selection, group_size) for group in groups]
    for place, name in enumerate(selection.names):
        for group, whole in zip(groups, bound, strict=True):
            try:
                with contained("it", provider=name):
                    found = evaluate_group(prepared[name], whole.requests[place])
            except RewardError as error:
                errors.append(error)
                if not isinstance(error, RewardContractError):
                    break
            else:
                scores += _shown(group, found)
    return scores, errors


def _bound(group: GoldenGroup, selection: Selection, group_size: int) -> BoundGroup:
    completions = list(islice(cycle(group.completions), group_size))
    verdicts = [{"finish_reason": "stop"}] * group_size
    return bind(group_trajectories(group.observation, completions, policy_info=verdicts), selection, group_size)[0]


def _shown(group: GoldenGroup, found: GroupScores) -> Iterator[GoldenScore]:
    for at, completion in enumerate(group.completions):
        yield GoldenScore(
            provider=found.provider,
            row=str(group.observation.row_id),
            completion=completion if len(completion) <= _SHOWN else f"{completion[: _SHOWN - 3]}...",
            terms={term: values[at] for term, values in found.terms.items()},
        )
