# SPDX-License-Identifier: Apache-2.0
"""The selected providers in this process: resolved from one catalog, constructed once, held against the stage."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar, final

from posttrain.errors import RewardConfigError, RewardError
from posttrain.rewards import RewardCatalog, RewardProviderSpec, StageIdentity
from posttrain.rewards.catalog.fingerprint import fingerprint_provider
from posttrain.rewards.metrics.report import Namespace
from posttrain.rewards.stage.bind import BoundGroup
from posttrain.rewards.stage.evaluator import GroupEvaluation
from posttrain.rewards.stage.prepare import PreparedProvider, Selection, construct, select
from posttrain.runs.checks.construction import Construction, construction_of
from posttrain.runs.checks.contained import contained
from posttrain.runs.checks.credentials import Credentials
from posttrain.runs.checks.report import Selected
from posttrain.runs.config import RLConfig

__all__ = ["Here", "namespaces", "resolve_here", "selected_names"]

ValueT = TypeVar("ValueT")


@final
@dataclass(kw_only=True)
class Here:
    """What came of the catalog and its providers in this process."""

    catalog: RewardCatalog | None = None
    prepared: dict[str, PreparedProvider] = field(default_factory=dict)
    """Those that could be constructed, in the order in which they are selected."""
    constructions: list[Construction] = field(default_factory=list)
    selected: list[Selected] = field(default_factory=list)
    stages: dict[Namespace, StageIdentity] = field(default_factory=dict)
    catalog_errors: list[RewardError] = field(default_factory=list)
    construct_errors: list[RewardError] = field(default_factory=list)
    stage_errors: list[RewardError] = field(default_factory=list)


def namespaces(config: RLConfig) -> tuple[Namespace, ...]:
    """What the run scores: its training, and its held-out validation where that is enabled."""
    return ("train", "val") if config.validation.enabled else ("train",)


def selected_names(config: RLConfig) -> tuple[str, ...]:
    """Every selected provider once, those of training first."""
    return tuple(dict.fromkeys(name for namespace in namespaces(config) for name in config.rewards(namespace)))


def resolve_here(config: RLConfig) -> Here:
    """Resolve, construct and check everything that is selected; what fails is in the result."""
    here, before = Here(), dict(os.environ)
    catalog = here.catalog = _tried(None, here.catalog_errors, config.catalog)
    if catalog is None:
        return here
    names = selected_names(config)
    here.catalog_errors += [RewardConfigError(catalog.unknown(name)) for name in names if name not in catalog]
    for name in names:
        if name in catalog:
            spec = catalog.spec(name)
            described = _tried(name, here.construct_errors, partial(_described, config, catalog, name, spec))
            if described is not None:
                here.selected.append(described)
            prepared = _tried(name, here.construct_errors, partial(construct, name, spec))
            made = prepared and _tried(name, here.construct_errors, partial(_recorded, prepared, before))
            if prepared is not None and made is not None:
                here.prepared[name] = prepared
                here.constructions.append(made)
    for namespace in namespaces(config):
        if {each.identity.provider for each in here.selected}.issuperset(config.rewards(namespace)):
            _hold_against_stage(here, config, catalog, namespace)
    return here


def _described(config: RLConfig, catalog: RewardCatalog, name: str, spec: RewardProviderSpec) -> Selected:
    declared = spec.execution.groups_in_flight
    return Selected(
        identity=catalog.identity(name),
        used_for=tuple(each for each in namespaces(config) if name in config.rewards(each)),
        needs=spec.needs,
        terms=spec.terms,
        diagnostics=spec.diagnostics,
        groups_in_flight=min(declared, config.reward_stage.groups_in_flight or declared),
        source=fingerprint_provider(name, spec),
    )


def _recorded(prepared: PreparedProvider, before: Mapping[str, str]) -> Construction:
    return construction_of(prepared.name, prepared.spec, prepared.provider, Credentials(before, os.environ))


def _hold_against_stage(here: Here, config: RLConfig, catalog: RewardCatalog, namespace: Namespace) -> None:
    selection = _tried(None, here.catalog_errors, partial(select, catalog, config.rewards(namespace)))
    if selection is not None:
        make = partial(config.worker, namespace=namespace, evaluator=_NoEvaluator())
        worker = _tried(None, here.stage_errors, make)
        if worker is not None:
            here.stages[namespace] = worker.stage_identity


def _tried(provider: str | None, errors: list[RewardError], call: Callable[[], ValueT]) -> ValueT | None:
    """What a call gives; None when it raised, which is noted once."""
    try:
        with contained("the catalog" if provider is None else "its factory", provider=provider):
            return call()
    except RewardError as error:
        if str(error) not in map(str, errors):
            errors.append(error)
        return None


@final
class _NoEvaluator:
    """Constructs nothing: the stage's settings are checked without making every provider once more."""

    def prepare(self, selection: Selection, groups_in_flight: int | None) -> None:
        """Do nothing."""

    @property
    def groups_in_flight(self) -> int:
        """None would be in flight."""
        return 1

    def open(self) -> None:
        """Do nothing."""

    def evaluate(self, groups: Sequence[BoundGroup], *, collect_unavailable: bool) -> list[GroupEvaluation]:
        """Refuse."""
        del groups, collect_unavailable
        raise RewardConfigError("preflight evaluates nothing through the stage")

    def close(self) -> None:
        """Do nothing."""
