# SPDX-License-Identifier: Apache-2.0
"""What the stage reports of a batch: mergeable over batches, actors and ranks, exact until it is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, final

import msgspec

from posttrain.errors import RewardContractError
from posttrain.rewards.metrics.contribution import MetricContribution, merge_all
from posttrain.rewards.metrics.moments import Moments, merge_moments

__all__ = ["Namespace", "ProviderReport", "RewardReport"]

Namespace: TypeAlias = Literal["train", "val"]


@final
class ProviderReport(msgspec.Struct, frozen=True, kw_only=True):
    """One provider's share of a report."""

    sample_count: int = 0
    """Candidates that it scored."""
    diagnostics: dict[str, MetricContribution] = {}
    """Its declared diagnostics, as far as any candidate had them."""
    seconds: float = 0.0
    """Wall time in `evaluate`, summed over groups; the one number that no merge promises to the bit."""
    slowest_seconds: float = 0.0
    """Wall time of its slowest group."""
    slowest_group: str | None = None
    """Which group that was."""

    def merge(self, other: ProviderReport) -> ProviderReport:
        """Both together."""
        slowest = max(self, other, key=lambda each: (each.slowest_seconds, each.slowest_group or ""))
        return ProviderReport(
            sample_count=self.sample_count + other.sample_count,
            diagnostics=_merged(self.diagnostics, other.diagnostics),
            seconds=self.seconds + other.seconds,
            slowest_seconds=slowest.slowest_seconds,
            slowest_group=slowest.slowest_group,
        )


@final
class RewardReport(msgspec.Struct, frozen=True, kw_only=True):
    """Counts, rewards and diagnostics of one or many batches.

    Merging is associative, commutative and exact (timings excepted): any grouping gives the same bits in `metrics`.
    """

    namespace: Namespace
    group_count: int = 0
    """Groups handed in, dropped ones included."""
    zero_spread_count: int = 0
    """Scored groups whose candidates all have the same final reward: they teach nothing."""
    dropped: dict[str, int] = {}
    """Dropped groups by cause: provider and type of the failure."""
    candidate_count: int = 0
    """Candidates handed in, dropped ones included."""
    latent_count: int = 0
    """Those of them that are latents: no engine has a verdict on how they ended."""
    truncated_count: int = 0
    """Candidates whose verdict is exactly "length"."""
    unknown_finish_count: int = 0
    """Candidates without a verdict: the rollout recorded none."""
    final: Moments = Moments()
    """The final rewards of the scored candidates."""
    terms: dict[str, MetricContribution] = {}
    """Term to the mean of its raw values."""
    providers: dict[str, ProviderReport] = {}

    @property
    def dropped_count(self) -> int:
        """Groups that were dropped."""
        return sum(self.dropped.values())

    @property
    def scored_group_count(self) -> int:
        """Groups that have a reward."""
        return self.group_count - self.dropped_count

    def merge(self, other: RewardReport) -> RewardReport:
        """Both together.

        Raises:
            RewardContractError: the two are of different namespaces, or hold metrics of different kinds under one name.
        """
        if self.namespace != other.namespace:
            raise RewardContractError(f"can't merge a {self.namespace!r} report with a {other.namespace!r} one")
        causes = sorted({*self.dropped, *other.dropped})
        names = sorted({*self.providers, *other.providers})
        return RewardReport(
            namespace=self.namespace,
            group_count=self.group_count + other.group_count,
            zero_spread_count=self.zero_spread_count + other.zero_spread_count,
            dropped={cause: self.dropped.get(cause, 0) + other.dropped.get(cause, 0) for cause in causes},
            candidate_count=self.candidate_count + other.candidate_count,
            latent_count=self.latent_count + other.latent_count,
            truncated_count=self.truncated_count + other.truncated_count,
            unknown_finish_count=self.unknown_finish_count + other.unknown_finish_count,
            final=merge_moments([self.final, other.final]),
            terms=_merged(self.terms, other.terms),
            providers={name: _both(name, self.providers, other.providers) for name in names},
        )

    def metrics(self) -> dict[str, float]:
        """Flat metrics under the report's namespace, each a finite float; what has no value yet is absent.

        Under ``<ns>/reward/``: ``final/mean``, ``final/std`` (population, over all scored candidates), ``final/min``,
        ``final/max`` and ``<term>/mean``. Under ``<ns>/group/``: ``count`` (handed in), ``dropped_count`` and
        ``zero_spread_fraction`` (of the scored groups). Under ``<ns>/completion/``: ``truncated_fraction`` and
        ``unknown_finish_fraction`` (of all completions handed in). Under ``<ns>/reward_provider/<provider>/``: each
        diagnostic, and ``sample_count``, the candidates that it scored.

        Raises:
            RewardContractError: the total of a diagnostic is beyond the range of a float; it is named.
        """
        found: dict[str, float] = {}
        if self.final.count:
            found["reward/final/mean"] = self.final.mean
            found["reward/final/std"] = self.final.std
            found["reward/final/min"] = self.final.low
            found["reward/final/max"] = self.final.high
        for term, contribution in self.terms.items():
            found[f"reward/{term}/mean"] = contribution.value
        found["group/count"] = float(self.group_count)
        found["group/dropped_count"] = float(self.dropped_count)
        if self.scored_group_count:
            found["group/zero_spread_fraction"] = self.zero_spread_count / self.scored_group_count
        if completions := self.candidate_count - self.latent_count:
            found["completion/truncated_fraction"] = self.truncated_count / completions
            found["completion/unknown_finish_fraction"] = self.unknown_finish_count / completions
        for name, provider in self.providers.items():
            for diagnostic, contribution in provider.diagnostics.items():
                found[f"reward_provider/{name}/{diagnostic}"] = _value(f"{name}/{diagnostic}", contribution)
            found[f"reward_provider/{name}/sample_count"] = float(provider.sample_count)
        return {f"{self.namespace}/{key}": value for key, value in found.items()}


def _both(name: str, left: Mapping[str, ProviderReport], right: Mapping[str, ProviderReport]) -> ProviderReport:
    nothing = ProviderReport()
    try:
        return left.get(name, nothing).merge(right.get(name, nothing))
    except RewardContractError as error:
        error.provider = name
        raise


def _value(name: str, contribution: MetricContribution) -> float:
    try:
        return contribution.value
    except RewardContractError as error:
        raise RewardContractError(f"metric {name!r}: {error.message}") from error


def _merged(
    left: Mapping[str, MetricContribution], right: Mapping[str, MetricContribution]
) -> dict[str, MetricContribution]:
    merged = {}
    for name in sorted({*left, *right}):
        try:
            merged[name] = merge_all([each[name] for each in (left, right) if name in each])
        except RewardContractError as error:
            raise RewardContractError(f"metric {name!r}: {error.message}") from error
    return merged
