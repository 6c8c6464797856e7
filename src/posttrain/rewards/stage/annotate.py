# SPDX-License-Identifier: Apache-2.0
"""From checked scores to an outcome: combine the terms, annotate the groups, build the report. Writes to nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from posttrain.errors import RewardContractError, RewardUnavailableError, describe, listing
from posttrain.rewards.contract.request import LatentCandidate
from posttrain.rewards.metrics.contribution import MetricContribution, merge_all
from posttrain.rewards.metrics.exact import exact_sum
from posttrain.rewards.metrics.moments import Moments
from posttrain.rewards.metrics.report import Namespace, ProviderReport, RewardReport
from posttrain.rewards.stage.bind import BoundGroup
from posttrain.rewards.stage.boundary import GroupScores
from posttrain.rewards.stage.combine import RewardCombiner
from posttrain.rewards.stage.estimators import Estimator
from posttrain.rewards.stage.evaluator import GroupEvaluation
from posttrain.rewards.stage.outcome import GroupOutcome
from posttrain.schema import is_length_verdict

__all__ = ["annotate_groups", "build_report", "combine_groups", "dropped_cause"]


def combine_groups(
    groups: Sequence[BoundGroup], evaluations: Sequence[GroupEvaluation], combiner: RewardCombiner
) -> list[GroupOutcome]:
    """One outcome per group, without advantages yet; a group that could not be evaluated is marked as dropped.

    Raises:
        RewardContractError: an evaluator gave a group the scores of another; or a weighted sum is beyond the range of a
            float: group and trajectories are named.
    """
    outcomes = []
    for group, evaluation in zip(groups, evaluations, strict=True):
        group_id = group.group_id
        if isinstance(evaluation, RewardUnavailableError):
            cause = dropped_cause(evaluation)
            outcomes.append(GroupOutcome(group_id=group_id, trajectory_ids=group.trajectory_ids, dropped_because=cause))
            continue
        ids = group.trajectory_ids
        for scores in evaluation:
            if scores.trajectory_ids != ids or scores.group_id != group_id:
                raise _miscorrelated(group, scores)
        terms = evaluation[0].terms if len(evaluation) == 1 else _all_terms(evaluation)
        try:
            final = combiner.combine(terms, ids)
        except RewardContractError as error:
            error.group_id = group_id
            raise
        outcomes.append(GroupOutcome(group_id=group_id, trajectory_ids=ids, terms=terms, final=final))
    return outcomes


def _miscorrelated(group: BoundGroup, scores: GroupScores) -> RewardContractError:
    return RewardContractError(
        f"the evaluator returned scores of group {scores.group_id!r} with {describe(scores.trajectory_ids)}, expected "
        f"{describe(group.trajectory_ids)}: one evaluation per group, in their order",
        provider=scores.provider,
        group_id=group.group_id,
    )


def _all_terms(evaluation: Iterable[GroupScores]) -> dict[str, tuple[float, ...]]:
    return dict(chain.from_iterable(scores.terms.items() for scores in evaluation))


def dropped_cause(error: RewardUnavailableError) -> str:
    """How the report counts a dropped group: provider and type of what was behind the failure."""
    return f"{error.provider}: {error.cause_type or type(error).__name__}"


def annotate_groups(outcomes: Iterable[GroupOutcome], estimator: Estimator, batch_scale: float) -> list[GroupOutcome]:
    """The outcomes with their advantages; dropped groups stay as they are."""
    return [
        each
        if each.dropped_because is not None
        else GroupOutcome(
            group_id=each.group_id,
            trajectory_ids=each.trajectory_ids,
            terms=each.terms,
            final=each.final,
            advantages=estimator.advantages(each.final, batch_scale),
        )
        for each in outcomes
    ]


def build_report(
    namespace: Namespace,
    groups: Sequence[BoundGroup],
    evaluations: Sequence[GroupEvaluation],
    outcomes: Sequence[GroupOutcome],
) -> RewardReport:
    """The report of these groups, whatever batch they are a part of."""
    scored = [each for each in outcomes if each.dropped_because is None]
    candidates = [each for group in groups for each in group.requests[0].candidates]
    # A latent has no end that an engine could have a verdict on, so it counts as neither cut nor unknown.
    texts = [] if candidates and isinstance(candidates[0], LatentCandidate) else candidates
    reasons = Counter([each.finish_reason for each in texts])
    return RewardReport(
        namespace=namespace,
        group_count=len(outcomes),
        zero_spread_count=sum(not each.has_spread for each in scored),
        dropped=dict(Counter(each.dropped_because for each in outcomes if each.dropped_because is not None)),
        candidate_count=len(candidates),
        latent_count=len(candidates) - len(texts),
        truncated_count=sum(times for reason, times in reasons.items() if is_length_verdict(reason)),
        unknown_finish_count=reasons[None],
        final=Moments.of(list(chain.from_iterable(each.final for each in scored))),
        terms=_term_means(scored),
        providers=_provider_reports([each for each in evaluations if not isinstance(each, RewardUnavailableError)]),
    )


def _term_means(scored: Sequence[GroupOutcome]) -> dict[str, MetricContribution]:
    if not scored:
        return {}
    means = {}
    for term in scored[0].terms:
        values = list(chain.from_iterable(each.terms[term] for each in scored))
        means[term] = MetricContribution("mean", exact_sum(values), (float(len(values)),))
    return means


def _provider_reports(evaluations: Sequence[tuple[GroupScores, ...]]) -> dict[str, ProviderReport]:
    reports = {}
    for column in zip(*evaluations, strict=True):
        slowest = max(column, key=lambda scores: scores.seconds)
        reports[column[0].provider] = ProviderReport(
            sample_count=sum(len(scores.trajectory_ids) for scores in column),
            diagnostics=_diagnostics(column),
            seconds=sum(scores.seconds for scores in column),
            slowest_seconds=slowest.seconds,
            slowest_group=slowest.group_id,
        )
    return reports


def _diagnostics(column: Sequence[GroupScores]) -> dict[str, MetricContribution]:
    found: dict[str, list[MetricContribution]] = {}
    for scores in column:
        for name, contribution in scores.diagnostics.items():
            found.setdefault(name, []).append(contribution)
    merged = {}
    for name, contributions in found.items():
        try:
            merged[name] = merge_all(contributions)
        except RewardContractError as error:
            first = {s.diagnostics[name].kind: s.group_id for s in reversed(column) if name in s.diagnostics}
            lines = [f"{kind}: first in group {group_id!r}" for kind, group_id in sorted(first.items())]
            message = f"diagnostic {name!r}: {error.message}\n{listing(lines)}"
            raise RewardContractError(message, provider=column[0].provider) from error
    return merged
