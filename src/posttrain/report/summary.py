# SPDX-License-Identifier: Apache-2.0
"""The numbers of a report as the page gets them: plain JSON, one entry a section, nothing that is not finite."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from posttrain.report.collect import Collected, Lengths, StepSums
from posttrain.report.facts import Facts
from posttrain.report.shares import AdvantageShares
from posttrain.report.spread import REASONS
from posttrain.rewards.metrics.moments import Moments, merge_moments

__all__ = ["made_by", "overall", "summary"]

_REWARD_BINS: Final = 48
_LENGTH_BINS: Final = 24
_PROVIDER: Final = "reward_provider/"


def summary(collected: Collected, facts: Facts) -> dict[str, Any]:
    """Every section but the table."""
    steps = sorted(collected.steps)
    sums = [collected.steps[step] for step in steps]
    return {
        "steps": steps,
        "totals": _totals(sums),
        "reward": _reward(collected, facts, steps, sums),
        "terms": _terms(collected, sums),
        "shares": _shares_note(collected, sums),
        "spread": _spread(collected, sums),
        "lengths": _lengths(collected, sum(each.moments.count for each in sums)),
        "finish": {
            "truncated": [_over(each.truncated, each.candidates) for each in sums],
            "unknown": [_over(each.unknown, each.candidates) for each in sums],
        },
        "heldOut": _pairs(facts, lambda name: not name.startswith(_PROVIDER), val_only=True),
        "diagnostics": _pairs(facts, lambda name: name.startswith(_PROVIDER), val_only=False),
        "slowest": [[each.provider, each.group_id, each.slowest_seconds, each.seconds] for each in facts.slowest],
    }


def overall(collected: Collected) -> Moments:
    """The final rewards of all scored candidates, exact as the stage's own report."""
    for each in collected.steps.values():
        each.settle()
    return merge_moments([each.moments for each in collected.steps.values()])


def _totals(sums: list[StepSums]) -> dict[str, Any]:
    moments = merge_moments([each.moments for each in sums])
    dropped = Counter[str]()
    for each in sums:
        dropped.update(each.dropped)
    groups, candidates = sum(each.groups for each in sums), sum(each.candidates for each in sums)
    return {
        "groups": groups,
        "candidates": candidates,
        "scoredGroups": groups - dropped.total(),
        "dropped": sorted(dropped.items()),
        "zero": sum(each.zero.total() for each in sums),
        "truncated": sum(each.truncated for each in sums),
        "unknown": sum(each.unknown for each in sums),
        **_moments(moments),
        "spread": _over(sum(each.spread_sum for each in sums), sum(each.spread_groups for each in sums)),
    }


def _moments(moments: Moments) -> dict[str, float | None]:
    if not moments.count:
        return {"mean": None, "std": None, "low": None, "high": None}
    return {"mean": moments.mean, "std": _finite(moments.std), "low": moments.low, "high": moments.high}


def _reward(collected: Collected, facts: Facts, steps: list[int], sums: list[StepSums]) -> dict[str, Any]:
    """Over steps, from the metrics where they are recorded, which may cover steps whose rows were not kept."""
    bins = [[value, value, count] for value, count in sorted(collected.values.items())]
    if not collected.values:
        bins = [[low, high, each.count] for low, high, each in collected.finals.shown(_REWARD_BINS)]
    found: dict[str, Any] = {"bins": bins, "spread": [_over(each.spread_sum, each.spread_groups) for each in sums]}
    recorded = facts.metrics.get("train/reward/final/mean", {})
    if len(recorded) > len(steps):
        names = {"mean": "mean", "std": "std", "low": "min", "high": "max"}
        series = {key: facts.metrics.get(f"train/reward/final/{name}", {}) for key, name in names.items()}
        over = {key: [each.get(step) for step in recorded] for key, each in series.items()}
        return {**found, "steps": list(recorded), **over}
    columns = [_moments(each.moments) for each in sums]
    return {**found, "steps": steps, **{key: [each[key] for each in columns] for key in ("mean", "std", "low", "high")}}


def _terms(collected: Collected, sums: list[StepSums]) -> list[dict[str, Any]]:
    whole = AdvantageShares()
    for each in sums:
        whole.merge(each.shares)
    known = not collected.unexplained
    terms = []
    for name in collected.term_names:
        pairs = [each.terms.get(name, [0.0, 0]) for each in sums]
        weight = collected.weights_of({name: ()})[name] if known or collected.weights else None
        terms.append(
            {
                "name": name,
                "weight": weight,
                "mean": _over(sum(total for total, _ in pairs), sum(count for _, count in pairs)),
                "advantage": whole.share(name) if known else None,
                "reward": collected.reward_shares.share(name) if known else None,
                "means": [_over(*pair) for pair in pairs],
                "shares": [each.shares.share(name) if known else None for each in sums],
            }
        )
    return terms


def _shares_note(collected: Collected, sums: list[StepSums]) -> str | None:
    """Why no shares are told; None: they are."""
    if collected.unexplained:
        what = "recorded weights" if collected.weights else "weights, which are not recorded and taken as 1,"
        return (
            f"The {what} do not make the final rewards of {collected.unexplained:,} groups out of their terms, so no "
            "shares are told. Give them with --weight TERM=NUMBER."
        )
    whole = AdvantageShares()
    for each in sums:
        whole.merge(each.shares)
    names = list(collected.term_names)
    if whole.is_beyond_range:
        return "Some rewards are too large to be taken apart, so no shares are told."
    return None if not names or whole.share(names[0]) is not None else "No group has an advantage to share."


def _spread(collected: Collected, sums: list[StepSums]) -> dict[str, Any]:
    counts: dict[str, list[int]] = {reason: [0] * len(sums) for reason in REASONS}
    for place, each in enumerate(sums):
        for zero, times in each.zero.items():
            counts[collected.ranges.reason(zero)][place] += times
    return {
        "reasons": list(REASONS),
        "counts": [counts[reason] for reason in REASONS],
        "scored": [each.groups - each.dropped.total() for each in sums],
        "dropped": [each.dropped.total() for each in sums],
        "verdicts": sorted(collected.ranges.verdicts()),
    }


def _lengths(collected: Collected, scored: int) -> dict[str, Any] | None:
    """In tokens where every scored candidate has them, else in characters; None: no length is known."""
    tokens, characters = collected.tokens, collected.characters
    found: Lengths = tokens if tokens.count == scored or tokens.count > characters.count else characters
    if not found.count:
        return None
    bins = [
        [low, high, each.count, each.truncated, _finite(each.mean), _finite(each.std)]
        for low, high, each in found.bins.shown(_LENGTH_BINS)
    ]
    unit = "tokens" if found is tokens else "characters"
    return {"unit": unit, "bins": bins, "correlation": found.correlation, "count": found.count, "of": scored}


def _pairs(facts: Facts, wanted: Callable[[str], bool], *, val_only: bool) -> list[dict[str, Any]]:
    """Metrics with their series in training and on held-out rows.

    Args:
        facts: with the metrics.
        wanted: of a metric's name without its namespace.
        val_only: whether only what held-out validation measured counts.
    """
    names: dict[str, None] = {}
    for metric in facts.metrics:
        namespace, _, name = metric.partition("/")
        if namespace == "val" or (namespace == "train" and not val_only):
            names.setdefault(name)
    found = []
    for name in filter(wanted, names):
        series = {key: facts.metrics.get(f"{key}/{name}", {}) for key in ("train", "val")}
        lines = {key: [list(each), list(each.values())] for key, each in series.items()}
        found.append({"name": name.removeprefix(_PROVIDER), **lines})
    return found


def made_by(facts: Facts) -> list[list[str]]:
    """What made the scores, as far as it is recorded: pairs of label and value."""
    stage = facts.stage
    found: list[list[str]] = []
    for each in stage.get("providers", ()):
        if isinstance(each, Mapping):
            source = each.get("catalog") or "built in"
            text = f"{each.get('provider')}, revision {each.get('revision')}, {str(each.get('sha256'))[:12]}, {source}"
            found.append(["provider", text])
    for label, key in (
        ("estimator", "estimator"),
        ("group size", "group_size"),
        ("when a service can't answer", "on_unavailable"),
    ):
        if key in stage:
            found.append([label, str(stage[key])])
    if "name" in facts.rollouts:
        found.append(["rollouts", f"{facts.rollouts['name']}, {str(facts.rollouts.get('sha256'))[:12]}"])
    if facts.version is not None:
        found.append(["scored with", f"posttrain {facts.version}"])
    return found


def _over(part: float, whole: float) -> float | None:
    return _finite(part / whole) if whole else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
