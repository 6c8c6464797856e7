# SPDX-License-Identifier: Apache-2.0
"""`RewardWorker`: the reward stage as one transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TypeVar, final

from posttrain.errors import RewardConfigError
from posttrain.rewards.catalog.catalog import RewardCatalog
from posttrain.rewards.catalog.identity import ProviderIdentity, StageIdentity
from posttrain.rewards.catalog.load import load_catalog
from posttrain.rewards.contract.spec import RewardProviderSpec
from posttrain.rewards.metrics.report import Namespace, RewardReport
from posttrain.rewards.stage.combine import RewardCombiner
from posttrain.rewards.stage.estimators import estimator_named
from posttrain.rewards.stage.evaluator import GroupEvaluator, InProcessEvaluator
from posttrain.rewards.stage.outcome import RewardOutcome
from posttrain.rewards.stage.prepare import Selection, select
from posttrain.rewards.stage.stage import OnUnavailable, RewardStage, check_settings
from posttrain.rewards.stage.transaction import commit
from posttrain.schema import Trajectory

__all__ = ["RewardWorker"]

T = TypeVar("T")


@final
class RewardWorker:
    """Scores batches of complete groups: all of a batch, or nothing of it.

    Args:
        catalog: path of a catalog factory (see `load_catalog`); in one process a `RewardCatalog` or a plain mapping
            will do. None: the built-in providers alone.
        reward: name of a provider, or of several that score together.
        group_size: candidates per group, at least 1.
        weights: term to weight in ``final``, 1.0 where none is given; ``reward[term]`` holds the raw value.
        namespace: of the metrics: ``train`` or ``val``.
        estimator: of the advantage: ``group_norm``, ``group_mean``, ``leave_one_out`` or ``group_mean_batch_std``.
        on_unavailable: ``fail`` the batch, or ``drop_group``: leave out whole groups that raised
            `RewardUnavailableError`. No other failure is ever dropped, and none is ever a number.
        max_dropped_fraction: share of dropped groups in [0, 1] above which the batch fails all the same.
        groups_in_flight: upper bound on what the providers declare; None: what they declare.
        evaluator: where groups are evaluated; None: in this process.

    Raises:
        RewardConfigError: a setting, a name, a collision of terms or names, or a factory is at fault; nothing was
            scored, opened or called.

    Example:
        ::

            with RewardWorker(catalog="my_rewards:catalog", reward="rubric", group_size=8) as worker:
                report = worker.score(trajectories)
    """

    __slots__ = ("stage",)

    def __init__(  # noqa: PLR0913  # keyword-only settings, each with its own meaning
        self,
        *,
        catalog: str | RewardCatalog | Mapping[str, RewardProviderSpec] | None = None,
        reward: str | Sequence[str],
        group_size: int,
        weights: Mapping[str, float] | None = None,
        namespace: Namespace = "train",
        estimator: str = "group_norm",
        on_unavailable: OnUnavailable = "fail",
        max_dropped_fraction: float = 0.1,
        groups_in_flight: int | None = None,
        evaluator: GroupEvaluator | None = None,
    ) -> None:
        if not isinstance(catalog, RewardCatalog):
            catalog = load_catalog(catalog) if catalog is None or isinstance(catalog, str) else RewardCatalog(catalog)
        chosen = catalog
        faults = _Faults()
        faults.of(lambda: check_settings(group_size, namespace, on_unavailable, max_dropped_fraction))
        formula = faults.of(lambda: estimator_named(estimator))
        selection = faults.of(lambda: select(chosen, reward))
        combiner = None if selection is None else faults.of(lambda: RewardCombiner.of_terms(_terms(selection), weights))
        if formula is None or selection is None or combiner is None or faults.found:
            raise faults.error()
        self.stage = RewardStage(
            selection=selection,
            combiner=combiner,
            estimator=formula,
            evaluator=InProcessEvaluator() if evaluator is None else evaluator,
            group_size=group_size,
            namespace=namespace,
            on_unavailable=on_unavailable,
            max_dropped_fraction=max_dropped_fraction,
        )
        self.stage.evaluator.prepare(selection, groups_in_flight)

    @property
    def identity(self) -> tuple[ProviderIdentity, ...]:
        """Catalog path, name, revision and identity SHA-256 of each selected provider: what a run records."""
        return self.stage.identity.providers

    @property
    def stage_identity(self) -> StageIdentity:
        """The same with needs, terms, weights, estimator, group size and failure policy."""
        return self.stage.identity

    def __repr__(self) -> str:
        return f"RewardWorker(group_size={self.stage.group_size}, identity={self.identity!r})"

    def __enter__(self) -> RewardWorker:
        self.stage.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close managed providers. A worker that scores again afterwards opens them again."""
        self.stage.close()

    def compute(self, trajectories: Sequence[Trajectory]) -> RewardOutcome:
        """Score, combine and annotate a batch of complete groups, and write nothing.

        Groups are formed by `group_id` alone; rows of different groups may interleave.

        Raises:
            RewardContractError: the batch, the provider or its result breaks the contract; every offender is named.
            RewardUnavailableError: an outside service could not answer, or too many groups had to be dropped.
        """
        evaluated = self.stage.evaluate(trajectories)
        self.stage.check_dropped(evaluated.report)
        return self.stage.annotate(evaluated)

    def commit(self, trajectories: Sequence[Trajectory], outcome: RewardOutcome) -> RewardReport:
        """Write an outcome into the trajectories that it was computed for. See `posttrain.rewards.stage.transaction`.

        Raises:
            RewardContractError: the trajectories are not those of the outcome; nothing is written.
        """
        return commit(trajectories, outcome)

    def score(self, trajectories: Sequence[Trajectory]) -> RewardReport:
        """`compute`, then `commit`: whole, or the batch is as it was before, also when interrupted.

        Writes every term and ``final`` into `reward`, and `advantage`; other keys of `reward` are left alone.
        """
        trajectories = list(trajectories)
        return commit(trajectories, self.compute(trajectories))


def _terms(selection: Selection) -> list[str]:
    return [term for spec in selection.specs for term in spec.terms]


@final
class _Faults:
    """What is wrong with several settings that are looked at one by one."""

    __slots__ = ("found",)

    def __init__(self) -> None:
        self.found: list[RewardConfigError] = []

    def of(self, make: Callable[[], T]) -> T | None:
        """What `make` gives; None when it refuses, which is kept."""
        try:
            return make()
        except RewardConfigError as error:
            self.found.append(error)
            return None

    def error(self) -> RewardConfigError:
        """The one refusal as it was, or all of them together."""
        if len(self.found) == 1:
            return self.found[0]
        return RewardConfigError("\n".join(error.message for error in self.found))
