# SPDX-License-Identifier: Apache-2.0
"""A verdict for each check, from what the fresh processes and this one have found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from posttrain.rewards.catalog.fingerprint import SourceFingerprint, changed_without_revision
from posttrain.runs.checks.construction import Construction, differences, origin_of
from posttrain.runs.checks.credentials import Credentials
from posttrain.runs.checks.here import Here
from posttrain.runs.checks.messages import Answer, Event, EventKind
from posttrain.runs.checks.processes import Fresh
from posttrain.runs.checks.report import Check, CheckName, failed, failed_by, passed, skipped, warned

__all__ = ["danger", "judge"]

_SLOW_SECONDS: Final = 1.0
"""Seconds of import and construction above which a provider is not light."""
_PRINTED_LINES: Final = 12
_SHOWN_HASH: Final = 12
_NO_ANSWER: Final = "a fresh process did not answer"


def danger(fresh: Sequence[Fresh]) -> str | None:
    """Why the catalog is not to be loaded in this process too, in words; None: it may be."""
    if not _survived(fresh):
        return "not tried here: a fresh process did not survive it"
    if any(event.is_fault and event.kind != "socket" for each in fresh for event in each.events):
        return "not tried here, to keep this process free of what it did in a fresh one"
    return None


def _survived(fresh: Iterable[Fresh]) -> bool:
    return all(each.answer is not None for each in fresh)


def judge(
    here: Here, fresh: Sequence[Fresh], recorded: Iterable[SourceFingerprint], credentials: Credentials
) -> list[Check]:
    """A verdict for each check of the catalog and its providers.

    Args:
        here: what came of them in this process.
        fresh: what came of them in fresh ones.
        recorded: fingerprints of an earlier run.
        credentials: what must not be shown.
    """
    answers = [each.answer for each in fresh if each.answer is not None]
    events = list(chain.from_iterable(each.events for each in fresh))
    made = [*here.constructions, *chain.from_iterable(answer.constructions for answer in answers)]
    return [
        _catalog(here, fresh),
        _fresh_process(here, fresh, credentials),
        _constructs(here, fresh),
        _stage(here, fresh),
        _deterministic(here, answers),
        _no("no socket", "socket", events, fresh),
        _no_process(events, fresh),
        _no("no GPU", "gpu", events, fresh),
        _light(answers),
        _no_secret(made),
        _source(here, recorded),
    ]


def _catalog(here: Here, fresh: Sequence[Fresh]) -> Check:
    if here.catalog_errors:
        return failed_by("catalog", here.catalog_errors)
    if here.catalog is None:
        return skipped("catalog", danger(fresh) or "")
    if here.catalog.path is None:
        return passed("catalog", "the built-in providers")
    return passed("catalog", f"{here.catalog.path}, {len(here.catalog)} providers with the built-ins")


def _constructs(here: Here, fresh: Sequence[Fresh]) -> Check:
    if here.construct_errors:
        return failed_by("constructs", here.construct_errors)
    if here.catalog is None:
        return skipped("constructs", danger(fresh) or "there is no catalog")
    if not here.prepared:
        return skipped("constructs", "there is no provider to construct")
    return passed("constructs", ", ".join(here.prepared))


def _stage(here: Here, fresh: Sequence[Fresh]) -> Check:
    if here.stage_errors:
        return failed_by("stage", here.stage_errors)
    if here.catalog is None:
        return skipped("stage", danger(fresh) or "there is no catalog")
    if not here.stages:
        return skipped("stage", "the selected providers can't be resolved")
    sizes = [f"{namespace}: groups of {identity.group_size}" for namespace, identity in here.stages.items()]
    return passed("stage", "; ".join(sizes))


def _fresh_process(here: Here, fresh: Sequence[Fresh], credentials: Credentials) -> Check:
    lines = list(dict.fromkeys(chain.from_iterable(_silent(each, credentials) for each in fresh)))
    answers = [each.answer for each in fresh if each.answer is not None]
    for fault in chain.from_iterable(answer.faults for answer in answers):
        # What fails here too is told by the checks of this process.
        works_here = here.catalog is not None if fault.provider is None else fault.provider in here.prepared
        if fault.round == 1 and works_here:
            lines += [line for line in fault.text.splitlines() if line not in lines]
    origin = here.catalog and origin_of(here.catalog)
    if strangers := sorted({str(it.origin) for it in answers if it.origin and origin and it.origin != origin}):
        lines.append(f"it imports the catalog from {', '.join(strangers)}, this process from {origin}")
    if not lines:
        if any(answer.faults for answer in answers):
            return skipped("fresh process", "it fails there as it does here")
        return passed("fresh process", f"{len(fresh)} of {len(fresh)} constructed everything")
    if answers and not any(each.ended for each in fresh):
        lines.append("here it works: install its package, or put its folder on PYTHONPATH, here and on every worker")
    return failed("fresh process", lines)


def _silent(fresh: Fresh, credentials: Credentials) -> Iterator[str]:
    """What to tell of a process that did not answer."""
    if fresh.answer is not None:
        return
    yield f"a fresh process {fresh.ended} while {fresh.doing}"
    printed = [line for line in credentials.masked(fresh.printed).splitlines() if line.strip()]
    if printed:
        yield "the last that it printed:"
        yield from (f"  {line}" for line in printed[-_PRINTED_LINES:])


def _deterministic(here: Here, answers: Sequence[Answer]) -> Check:
    rounds = [*(answer.constructions for answer in answers), here.constructions]
    names = dict.fromkeys(each.provider for each in chain.from_iterable(rounds))
    lines = list[str]()
    for name in names:
        found = [[each for each in made if each.provider == name] for made in rounds]
        lines += _varying(name, found[: len(answers)], found[-1])
    for answer in answers:
        firsts = {fault.provider for fault in answer.faults if fault.round == 1}
        for fault in answer.faults:
            if fault.round == 2 and fault.provider not in firsts:
                lines.append(f"it can be constructed once only, the second time: {fault.text}")
    lines = list(dict.fromkeys(lines))
    if lines:
        return failed(
            "deterministic",
            [*lines, "look for a set's order, a clock, a random number or an object's address: write sorted(...)"],
        )
    if not names:
        return skipped("deterministic", "there is no construction to compare")
    return passed("deterministic", f"{sum(map(len, rounds))} constructions in {len(rounds)} processes are the same")


def _varying(name: str, fresh: Sequence[list[Construction]], here: list[Construction]) -> Iterator[str]:
    """Every way in which the constructions of one provider differ, told by where it shows first."""
    inside = {field for made in fresh for other in made[1:] for field in differences(made[0], other)}
    firsts = [made[0] for made in fresh if made]
    between = {field for other in firsts[1:] for field in differences(firsts[0], other)} - inside
    apart = {field for other in here[:1] for first in firsts for field in differences(first, other)} - inside - between
    for fields, where in (
        (inside, "two constructions in one process"),
        (between, "processes with different hash seeds"),
        (apart, "this process and a fresh one"),
    ):
        if fields:
            yield f"provider {name!r}: {', '.join(sorted(fields))} is not the same in {where}"


def _no(check: CheckName, kind: EventKind, events: Iterable[Event], fresh: Sequence[Fresh]) -> Check:
    lines = _told(event for event in events if event.kind == kind)
    if lines:
        return failed(check, lines)
    return passed(check) if _survived(fresh) else skipped(check, _NO_ANSWER)


def _no_process(events: Iterable[Event], fresh: Sequence[Fresh]) -> Check:
    found = [event for event in events if event.kind == "process"]
    if any(event.is_fault for event in found):
        return failed("no process", _told(found))
    if not _survived(fresh):
        return skipped("no process", _NO_ANSWER) if not found else warned("no process", _told(found))
    return warned("no process", [*_told(found), "it ended again"]) if found else passed("no process")


def _told(events: Iterable[Event]) -> list[str]:
    lines = [f"while {it.during}: {it.what}{f' ({it.place})' if it.place else ''}" for it in events]
    return list(dict.fromkeys(lines))


def _light(answers: Sequence[Answer]) -> Check:
    if not answers:
        return skipped("light", _NO_ANSWER)
    # The quicker of the two: the other may have had to wait for the machine.
    best = min(answers, key=lambda answer: answer.seconds)
    pulled = f"pulled in {best.modules} modules" + (f", of {', '.join(best.packages)}" if best.packages else "")
    took = f"import and construction took {best.seconds:.2f} s"
    if best.heavy:
        return warned("light", [f"{took} and pulled in {', '.join(best.heavy)}: import them in open() or evaluate()"])
    if best.seconds > _SLOW_SECONDS:
        return warned("light", [f"{took} and {pulled}: heavy set-up belongs in open()"])
    return passed("light", took)


def _no_secret(made: Iterable[Construction]) -> Check:
    lines = [f"provider {each.provider!r}: {line}" for each in made for line in each.secrets]
    if lines:
        return failed("no secret", [*dict.fromkeys(lines), "name the credential there, for example its variable"])
    return passed("no secret") if made else skipped("no secret", "there is no identity to look at")


def _source(here: Here, recorded: Iterable[SourceFingerprint]) -> Check:
    before = {each.provider: each for each in recorded}
    now = [each.source for each in here.selected]
    if not now:
        return skipped("source", "there is no provider to look at")
    pairs = [(before[each.provider], each) for each in now if each.provider in before]
    lines = [line for pair in pairs if (line := changed_without_revision(*pair)) is not None]
    if lines:
        return warned("source", lines)
    prints = ", ".join(f"{it.provider} {it.sha256[:_SHOWN_HASH] if it.sha256 else 'has none'}" for it in now)
    with_what = f"{len(pairs)} of {len(now)} compared with the recorded run" if pairs else "no record to compare with"
    return passed("source", f"{prints}; {with_what}")
