# SPDX-License-Identifier: Apache-2.0
"""Groups dealt out over ranks, whole or by the place of each latent, and their evaluations joined again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from msgspec.structs import replace

from posttrain.errors import RewardContractError, RewardUnavailableError, describe
from posttrain.execution.ranks.failure import as_error, as_failure
from posttrain.execution.ranks.plain import Plain
from posttrain.execution.ranks.records import RemoteLatent
from posttrain.rewards.metrics.contribution import MetricContribution, merge_all
from posttrain.rewards.stage.bind import BoundGroup
from posttrain.rewards.stage.boundary import GroupScores
from posttrain.rewards.stage.evaluator import GroupEvaluation

__all__ = ["Part", "dealt_whole", "from_plain", "held_here", "joined", "to_plain"]

Part: TypeAlias = tuple[int, GroupEvaluation]
"""Index of a group in the batch, and what a rank found for it or for its part of it."""


def dealt_whole(groups: Sequence[BoundGroup], rank: int, world_size: int) -> list[tuple[int, BoundGroup]]:
    """Every `world_size`-th group, from this rank's number on, with its index."""
    return [(index, groups[index]) for index in range(rank, len(groups), world_size)]


def held_here(groups: Sequence[BoundGroup]) -> list[tuple[int, BoundGroup]]:
    """Of each group the candidates whose latent is on this rank; groups without any are left out."""
    parts = []
    for index, group in enumerate(groups):
        here = [
            place
            for place, candidate in enumerate(group.requests[0].candidates)
            if not isinstance(getattr(candidate, "latent", None), RemoteLatent)
        ]
        if here:
            requests = [
                replace(each, candidates=tuple(each.candidates[place] for place in here)) for each in group.requests
            ]
            ids = tuple(group.trajectory_ids[place] for place in here)
            parts.append((index, replace(group, requests=tuple(requests), trajectory_ids=ids)))
    return parts


def to_plain(parts: Sequence[Part]) -> Plain:
    """Evaluations as plain data."""
    plain: list[Plain] = []
    for index, evaluation in parts:
        if isinstance(evaluation, RewardUnavailableError):
            plain.append([index, as_failure(evaluation)])
        else:
            plain.append([index, [_plain_scores(scores) for scores in evaluation]])
    return plain


def _plain_scores(scores: GroupScores) -> Plain:
    terms: dict[str, Plain] = dict(scores.terms)
    diagnostics: dict[str, Plain] = {
        name: (it.kind, it.numerator, it.weight) for name, it in scores.diagnostics.items()
    }
    return [scores.provider, scores.group_id, scores.trajectory_ids, terms, diagnostics, scores.seconds]


def from_plain(plain: Sequence[Any]) -> list[Part]:
    """The evaluations again, bit for bit."""
    parts: list[Part] = []
    for index, it in plain:
        if isinstance(it, dict):
            error = as_error(it)
            if isinstance(error, RewardUnavailableError):
                parts.append((index, error))
            continue
        parts.append((index, tuple(_scores(*each) for each in it)))
    return parts


def _scores(
    provider: str,
    group_id: str,
    trajectory_ids: tuple[str, ...],
    terms: dict[str, tuple[float, ...]],
    diagnostics: Mapping[str, tuple[Any, ...]],
    seconds: float,
) -> GroupScores:
    merged = {name: MetricContribution(*it) for name, it in diagnostics.items()}
    return GroupScores(provider, group_id, trajectory_ids, terms, merged, seconds)


def joined(groups: Sequence[BoundGroup], answers: Sequence[Sequence[Part]]) -> list[GroupEvaluation]:
    """One evaluation per group from what every rank found; each candidate exactly once.

    Args:
        groups: the whole batch.
        answers: for each rank, in rank order, the parts that it evaluated.

    Raises:
        RewardContractError: a candidate was evaluated by no rank or by several, or the parts of one diagnostic are of
            different kinds.
    """
    found: dict[int, list[GroupEvaluation]] = {}
    for parts in answers:
        for index, evaluation in parts:
            found.setdefault(index, []).append(evaluation)
    return [_joined(group, found.get(index, [])) for index, group in enumerate(groups)]


def _joined(group: BoundGroup, parts: list[GroupEvaluation]) -> GroupEvaluation:
    scored = []
    for part in parts:
        if isinstance(part, RewardUnavailableError):
            # The first in rank order stands for the group, which is dropped whole.
            return part
        scored.append(part)
    if len(scored) == 1 and all(scores.trajectory_ids == group.trajectory_ids for scores in scored[0]):
        return scored[0]
    if not scored:
        raise RewardContractError("was evaluated by no rank", group_id=group.group_id)
    return tuple(_column(group, column) for column in zip(*scored, strict=True))


def _column(group: BoundGroup, column: tuple[GroupScores, ...]) -> GroupScores:
    """One provider's scores of the whole group."""
    first = column[0]
    places = [
        (trajectory_id, scores, at) for scores in column for at, trajectory_id in enumerate(scores.trajectory_ids)
    ]
    by_id = {trajectory_id: (scores, at) for trajectory_id, scores, at in places}
    if len(places) != len(group.trajectory_ids) or set(by_id) != set(group.trajectory_ids):
        raise RewardContractError(
            f"the ranks evaluated {describe(tuple(it[0] for it in places))}, expected each of "
            f"{describe(group.trajectory_ids)} exactly once",
            provider=first.provider,
            group_id=group.group_id,
        )
    ordered = [by_id[trajectory_id] for trajectory_id in group.trajectory_ids]
    return GroupScores(
        first.provider,
        group.group_id,
        group.trajectory_ids,
        {term: tuple([scores.terms[term][at] for scores, at in ordered]) for term in first.terms},
        _diagnostics(group, column),
        # The parts ran side by side: the longest is the group's wall time.
        max(scores.seconds for scores in column),
    )


def _diagnostics(group: BoundGroup, column: tuple[GroupScores, ...]) -> dict[str, MetricContribution]:
    merged = {}
    for name in dict.fromkeys(name for scores in column for name in scores.diagnostics):
        try:
            merged[name] = merge_all([scores.diagnostics[name] for scores in column if name in scores.diagnostics])
        except RewardContractError as error:
            raise RewardContractError(
                f"diagnostic {name!r}: {error.message}", provider=column[0].provider, group_id=group.group_id
            ) from error
    return merged
