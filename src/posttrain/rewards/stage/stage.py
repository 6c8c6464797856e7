# SPDX-License-Identifier: Apache-2.0
"""The steps of the stage with their settings; the worker and the offline scorer both run these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, final, get_args

import msgspec

from posttrain.errors import RewardConfigError, RewardUnavailableError, describe, listing
from posttrain.rewards.catalog.identity import StageIdentity
from posttrain.rewards.metrics.real import as_real
from posttrain.rewards.metrics.report import Namespace, RewardReport
from posttrain.rewards.stage.annotate import annotate_groups, build_report, combine_groups
from posttrain.rewards.stage.bind import bind
from posttrain.rewards.stage.combine import RewardCombiner
from posttrain.rewards.stage.estimators import Estimator
from posttrain.rewards.stage.evaluator import GroupEvaluator
from posttrain.rewards.stage.outcome import GroupOutcome, RewardOutcome
from posttrain.rewards.stage.prepare import Selection
from posttrain.schema import Trajectory

__all__ = ["EvaluatedGroups", "OnUnavailable", "RewardStage", "check_settings"]

OnUnavailable: TypeAlias = Literal["fail", "drop_group"]


@final
class EvaluatedGroups(msgspec.Struct, frozen=True):
    """Scored and dropped groups without advantages yet, and their report: a batch, or a part of one."""

    outcomes: tuple[GroupOutcome, ...]
    report: RewardReport


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RewardStage:
    """Bind, evaluate, check, combine; then annotate. Its parts are resolved by `RewardWorker`, which documents them."""

    selection: Selection
    combiner: RewardCombiner
    estimator: Estimator
    evaluator: GroupEvaluator
    group_size: int
    namespace: Namespace
    on_unavailable: OnUnavailable
    max_dropped_fraction: float

    def __post_init__(self) -> None:
        """Refuse settings of the wrong type or range, all at once."""
        check_settings(self.group_size, self.namespace, self.on_unavailable, self.max_dropped_fraction)

    @property
    def terms(self) -> tuple[str, ...]:
        """Every term that the stage owns, of all selected providers."""
        return tuple(self.combiner.weights)

    @property
    def identity(self) -> StageIdentity:
        """Everything that decides what the stage writes."""
        chosen = list(zip(self.selection.names, self.selection.specs, strict=True))
        return StageIdentity(
            providers=self.selection.identities,
            needs={name: spec.needs for name, spec in chosen},
            terms={name: spec.terms for name, spec in chosen},
            weights=dict(self.combiner.weights),
            estimator=self.estimator.name,
            group_size=self.group_size,
            on_unavailable=self.on_unavailable,
            max_dropped_fraction=float(self.max_dropped_fraction),
        )

    def open(self) -> None:
        """Open managed providers, once."""
        self.evaluator.open()

    def close(self) -> None:
        """Close them."""
        self.evaluator.close()

    def evaluate(self, trajectories: Sequence[Trajectory]) -> EvaluatedGroups:
        """Everything up to the combined reward, for whole groups. Touches no trajectory.

        Raises:
            RewardContractError: see `posttrain.rewards.stage.bind` and `posttrain.rewards.stage.boundary`.
            RewardUnavailableError: an outside service could not answer, and the policy is not to drop its group.
        """
        groups = bind(list(trajectories), self.selection, self.group_size)
        self.open()
        evaluations = self.evaluator.evaluate(groups, collect_unavailable=self.on_unavailable == "drop_group")
        outcomes = combine_groups(groups, evaluations, self.combiner)
        return EvaluatedGroups(tuple(outcomes), build_report(self.namespace, groups, evaluations, outcomes))

    def check_dropped(self, report: RewardReport) -> None:
        """Hold a batch's report against the ceiling of the failure policy.

        Raises:
            RewardUnavailableError: more than `max_dropped_fraction` of the groups were dropped, or none is left.
        """
        dropped, total = report.dropped_count, report.group_count
        # A share, not a product: 0.29 * 100 is below 29.
        if not dropped or (dropped < total and dropped / total <= self.max_dropped_fraction):
            return
        limit = f"above the ceiling of {self.max_dropped_fraction:g} (max_dropped_fraction)"
        causes = [f"{cause}: {times}" for cause, times in sorted(report.dropped.items())]
        raise RewardUnavailableError(
            f"{dropped} of {total} groups could not be scored, {limit if dropped < total else 'so none is left'}, "
            f"by cause:\n{listing(causes)}"
        )

    def annotate(self, evaluated: EvaluatedGroups) -> RewardOutcome:
        """The outcome of a whole batch: every group's advantages."""
        scale = self.estimator.batch_scale(evaluated.report.final)
        groups = annotate_groups(evaluated.outcomes, self.estimator, scale)
        return RewardOutcome(tuple(groups), evaluated.report, self.terms)


def check_settings(group_size: object, namespace: object, on_unavailable: object, max_dropped_fraction: object) -> None:
    """Refuse settings of the wrong type or range, all at once.

    Raises:
        RewardConfigError: naming every one.
    """
    faults = []
    if type(group_size) is not int or group_size < 1:
        faults.append(f"group_size: expected an int of at least 1, got {describe(group_size)}")
    for field, value, known in (
        ("namespace", namespace, get_args(Namespace)),
        ("on_unavailable", on_unavailable, get_args(OnUnavailable)),
    ):
        if value not in known:
            faults.append(f"{field}: expected one of {', '.join(known)}, got {describe(value)}")
    fraction = as_real(max_dropped_fraction)
    if fraction is None or not 0 <= fraction <= 1:
        faults.append(f"max_dropped_fraction: expected a number in [0, 1], got {describe(max_dropped_fraction)}")
    if faults:
        raise RewardConfigError(f"the stage's settings are not valid:\n{listing(faults)}")
