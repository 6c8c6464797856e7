# SPDX-License-Identifier: Apache-2.0
"""`preflight`: every check, in one report."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from time import perf_counter

from posttrain import __version__
from posttrain.errors import RewardConfigError, RewardError, describe, listing
from posttrain.rewards.catalog.fingerprint import SourceFingerprint
from posttrain.rewards.metrics.report import Namespace
from posttrain.runs.checks.contained import contained
from posttrain.runs.checks.credentials import Credentials
from posttrain.runs.checks.golden import GoldenFn, load_golden
from posttrain.runs.checks.here import Here, resolve_here, selected_names
from posttrain.runs.checks.judging import danger, judge
from posttrain.runs.checks.machine import check_machine, check_outside
from posttrain.runs.checks.probing import probe_providers
from posttrain.runs.checks.processes import Fresh, run_fresh
from posttrain.runs.checks.report import Check, GoldenScore, PreflightReport, ProbedData, failed_by, passed, skipped
from posttrain.runs.checks.rows import probe_held_out, probe_rows
from posttrain.runs.config import RLConfig
from posttrain.schema import Observation

__all__ = ["preflight"]


def preflight(
    config: RLConfig,
    *,
    recorded: Iterable[SourceFingerprint] = (),
    rows: int = 8,
    deadline_s: float = 60.0,
    probe: bool = False,
    golden: str | GoldenFn | None = None,
    golden_rows: int = 4,
) -> PreflightReport:
    """Check a run before a model loads: the first thing that it does. See `PreflightReport.raise_if_failed`.

    The selected providers are constructed twice in each of two fresh processes, then once in this one, unless a fresh
    process did not survive it. Nothing is opened, called or scored without `probe`.

    Args:
        config: the run.
        recorded: fingerprints of an earlier run, of its `Provenance.sources`.
        rows: how many of the first rows of the data are held against what the providers need.
        deadline_s: seconds that a fresh process has.
        probe: whether managed providers are opened and closed, one real call made of each that offers it, and golden
            completions scored.
        golden: function (prompt, reference) that gives completions, or its path; see `posttrain.runs.checks.golden`.
        golden_rows: how many of the first rows it is asked about.

    Raises:
        RewardConfigError: an argument is at fault, or no process can be started.
    """
    started = perf_counter()
    _check_arguments(config, rows, deadline_s, golden_rows, has_golden=golden is not None, probe=probe)
    before = dict(os.environ)
    fresh = _fresh(config, deadline_s)
    here = resolve_here(config) if danger(fresh) is None else Here()
    checks = judge(here, fresh, recorded, Credentials(before, os.environ))
    # Before anything is opened: what the machine lacks is told by the one who needs it.
    told = check_machine(here), check_outside(here, config)
    check, data, observations = _probed(config, _needs(config, here, fresh), max(rows, golden_rows if golden else 0))
    called, scores = _called(config, here, golden, observations and observations[:golden_rows], probe=probe)
    report = PreflightReport(
        posttrain=__version__,
        catalog=None if here.catalog is None else here.catalog.path,
        providers=tuple(here.selected),
        stages={namespace: identity.sha256 for namespace, identity in here.stages.items()},
        data=data,
        checks=(*checks, *told, check, *called),
        golden=scores,
        seconds=perf_counter() - started,
    )
    # Whoever wrote a text into it: no secret leaves with it, one that came with the operator's code included.
    return report.masked(Credentials(before, os.environ))


def _check_arguments(
    config: RLConfig, rows: int, deadline_s: float, golden_rows: int, *, has_golden: bool, probe: bool
) -> None:
    faults = [
        f"{name}: expected an int of at least 1, got {describe(count)}"
        for name, count in (("rows", rows), ("golden_rows", golden_rows))
        if type(count) is not int or count < 1
    ]
    if type(deadline_s) not in {int, float} or not 0 < deadline_s < float("inf"):
        faults.append(f"deadline_s: expected a positive number of seconds, got {describe(deadline_s)}")
    if has_golden and not probe:
        faults.append("golden: completions are scored with --probe only: add it")
    if has_golden and config.data.path is None:
        faults.append("golden: completions are derived from the rows of the data: set rl.data.path")
    if faults:
        raise RewardConfigError(f"preflight can't be made:\n{listing(faults)}")


def _fresh(config: RLConfig, deadline_s: float) -> list[Fresh]:
    names = selected_names(config)
    return run_fresh(config.reward_catalog, config.reward_catalog_folder, names, deadline_s=deadline_s)


def _needs(config: RLConfig, here: Here, fresh: Sequence[Fresh]) -> dict[Namespace, set[str]] | None:
    """What the providers of training and of validation need, as far as any process could find out; None: unknown."""
    known = {each.identity.provider: each.needs for each in here.selected}
    for answer in (each.answer for each in fresh if each.answer is not None):
        known.update({made.provider: made.needs for made in answer.constructions if made.provider not in known})
    if len(known) < len(selected_names(config)):
        return None
    used: dict[Namespace, tuple[str, ...]] = {"train": config.reward}
    used["val"] = config.rewards("val") if config.validation.enabled else ()
    needs = {namespace: {need for name in names for need in known[name]} for namespace, names in used.items()}
    if config.validation.path is None:
        # Both draw from the training rows.
        needs["train"] |= needs["val"]
    return needs


def _probed(
    config: RLConfig, needs: dict[Namespace, set[str]] | None, count: int
) -> tuple[Check, ProbedData | None, list[Observation] | None]:
    held_out = config.validation.enabled and config.validation.path is not None
    if config.data.path is None and not held_out:
        return skipped("data", "rl.data.path is not set"), None, None
    if needs is None:
        return skipped("data", "what the providers need is not known"), None, None
    lines: list[str] = []
    failures: list[RewardError] = []
    data: ProbedData | None = None
    observations: list[Observation] | None = None
    if config.data.path is not None:
        try:
            with contained("what reads the rows"):
                data, observations = probe_rows(config.data, needs["train"], count)
            lines.append(_had(data.title, data.probed, data.rows, needs["train"]))
        except RewardError as error:
            failures.append(error)
    if held_out:
        try:
            with contained("what reads the held-out rows"):
                title, total, probed = probe_held_out(config, needs["val"], count)
            lines.append(f"held out: {_had(title, probed, total, needs['val'])}")
        except RewardError as error:
            failures.append(error)
    if failures:
        return failed_by("data", failures), None, None
    return passed("data", *lines), data, observations


def _had(title: str, probed: int, total: int, needs: set[str]) -> str:
    return f"{title}: {probed} of {total:,} rows have {', '.join(sorted(needs)) or 'prompt'}"


def _called(
    config: RLConfig,
    here: Here,
    golden: str | GoldenFn | None,
    observations: list[Observation] | None,
    *,
    probe: bool,
) -> tuple[list[Check], tuple[GoldenScore, ...]]:
    """The checks that call the providers."""
    if not probe:
        return _not_called("asked for with --probe"), ()
    if len(here.prepared) < len(selected_names(config)):
        return _not_called("not every provider was constructed"), ()
    try:
        function = load_golden(golden) if isinstance(golden, str) else golden
    except RewardConfigError as error:
        (opens, probed, _), _ = probe_providers(here, config, None, None)
        return [opens, probed, failed_by("golden", [error])], ()
    return probe_providers(here, config, function, observations)


def _not_called(why: str) -> list[Check]:
    return [skipped("opens", why), skipped("probe", why), skipped("golden", why)]
