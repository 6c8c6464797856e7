# SPDX-License-Identifier: Apache-2.0
"""`--probe`, the only checks that call out: providers are opened and closed, tried once, golden completions scored."""

from __future__ import annotations

from collections.abc import Sequence

from posttrain.errors import RewardError
from posttrain.rewards import RewardCatalog
from posttrain.rewards.contract.lifecycle import opened
from posttrain.rewards.contract.provider import ManagedRewardProvider, ProbedRewardProvider
from posttrain.rewards.stage.prepare import Selection
from posttrain.runs.checks.contained import contained
from posttrain.runs.checks.golden import GoldenFn, golden_groups, score_golden
from posttrain.runs.checks.here import Here, namespaces
from posttrain.runs.checks.report import Check, GoldenScore, failed_by, passed, skipped
from posttrain.runs.config import RLConfig
from posttrain.schema import Observation

__all__ = ["probe_providers"]


def probe_providers(
    here: Here, config: RLConfig, golden: GoldenFn | None, observations: Sequence[Observation] | None
) -> tuple[list[Check], tuple[GoldenScore, ...]]:
    """Open the providers, try those that offer it, score what is golden, close them.

    Args:
        here: the providers; all of them are constructed.
        config: gives the sizes of the groups.
        golden: gives the completions of a row; None: nothing is scored.
        observations: the rows; None: there are none to be had.
    """
    managed = [name for name, it in here.prepared.items() if isinstance(it.provider, ManagedRewardProvider)]
    closed = "the providers did not open"
    check = skipped("golden", "no golden completions are given" if golden is None else closed)
    probed = skipped("probe", closed)
    scores: tuple[GoldenScore, ...] = ()
    try:
        with contained("a provider"), opened({name: each.provider for name, each in here.prepared.items()}):
            probed = _tried(here)
            if golden is not None and here.catalog is not None:
                check, scores = _scored(here, here.catalog, config, golden, observations)
    except RewardError as error:
        return [failed_by("opens", [error]), probed, check], scores
    return [passed("opens", ", ".join(managed) if managed else "no provider is managed"), probed, check], scores


def _tried(here: Here) -> Check:
    """One real call of each provider that offers it."""
    lines, errors = list[str](), list[RewardError]()
    for name, prepared in here.prepared.items():
        if isinstance(prepared.provider, ProbedRewardProvider):
            try:
                with contained("its probe", provider=name):
                    said = prepared.provider.probe()
            except RewardError as error:
                errors.append(error)
            else:
                # An entry point of several, as a route is one, may have nothing to try.
                lines += [f"{name}: {line}" for line in str(said).splitlines()]
    if errors:
        return failed_by("probe", errors)
    return passed("probe", *lines) if lines else skipped("probe", "no provider offers one")


def _scored(
    here: Here,
    catalog: RewardCatalog,
    config: RLConfig,
    golden: GoldenFn,
    observations: Sequence[Observation] | None,
) -> tuple[Check, tuple[GoldenScore, ...]]:
    if not observations:
        return skipped("golden", "there are no rows to derive completions from"), ()
    scores, errors, done = list[GoldenScore](), list[RewardError](), set[str]()
    for namespace in namespaces(config):
        names = tuple(name for name in config.rewards(namespace) if name not in done)
        done.update(names)
        if names:
            size = config.group_size if namespace == "train" else config.validation.n_generation
            groups, faults = golden_groups(golden, observations, size)
            errors += [fault for fault in faults if str(fault) not in map(str, errors)]
            found, unscored = score_golden(groups, Selection(catalog, names), here.prepared, size)
            scores += found
            errors += unscored
    if errors:
        return failed_by("golden", errors), tuple(scores)
    return passed("golden", f"{len(scores)} scores of {len(observations)} rows"), tuple(scores)
