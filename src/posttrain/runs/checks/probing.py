# SPDX-License-Identifier: Apache-2.0
"""`--probe`, the only checks that call a provider: managed ones are opened and closed, golden completions scored."""

from __future__ import annotations

from collections.abc import Sequence

from posttrain.errors import RewardError
from posttrain.rewards import RewardCatalog
from posttrain.rewards.contract.lifecycle import opened
from posttrain.rewards.contract.provider import ManagedRewardProvider
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
    """Open the providers, score what is golden, close them.

    Args:
        here: the providers; all of them are constructed.
        config: gives the sizes of the groups.
        golden: gives the completions of a row; None: nothing is scored.
        observations: the rows; None: there are none to be had.
    """
    managed = [name for name, it in here.prepared.items() if isinstance(it.provider, ManagedRewardProvider)]
    why = "no golden completions are given" if golden is None else "the providers did not open"
    check = skipped("golden", why)
    scores: tuple[GoldenScore, ...] = ()
    try:
        with contained("a provider"), opened({name: each.provider for name, each in here.prepared.items()}):
            if golden is not None and here.catalog is not None:
                check, scores = _scored(here, here.catalog, config, golden, observations)
    except RewardError as error:
        return [failed_by("opens", [error]), check], scores
    return [passed("opens", ", ".join(managed) if managed else "no provider is managed"), check], scores


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
