# SPDX-License-Identifier: Apache-2.0
"""Failures that travel between ranks as plain data, and the one error that every rank raises for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from posttrain.errors import RewardConfigError, RewardContractError, RewardError, RewardUnavailableError
from posttrain.execution.ranks.plain import Plain
from posttrain.rewards.contract.failure import classified

__all__ = ["Failure", "as_error", "as_failure", "converged"]

Failure: TypeAlias = "dict[str, Plain]"

# In the order in which they win when several ranks fail: what a person must mend comes first.
_KINDS: Mapping[str, type[RewardError]] = {
    "config": RewardConfigError,
    "contract": RewardContractError,
    "unavailable": RewardUnavailableError,
}
_NAMES = ("provider", "group_id", "trajectory_id", "cause_type", "cause_text")


def as_failure(error: Exception) -> Failure:
    """What other ranks need to know of an error: kind, text, names, and the type and text behind it.

    An exception from outside the tree becomes a contract error, as at the boundary around a provider.
    """
    known = classified(error)
    kind = next((name for name, kind in _KINDS.items() if isinstance(known, kind)), "contract")
    names: dict[str, Plain] = {name: getattr(known, name) for name in _NAMES}
    if known.cause_type is None and type(known) not in {*_KINDS.values(), RewardError}:
        # A report counts dropped groups by the type of an author's own subclass, which does not travel.
        names["cause_type"] = type(known).__name__
    notes: list[Plain] = [str(note) for note in getattr(known, "__notes__", ())]
    return {"kind": kind, "message": known.message, "notes": notes, **names}


def as_error(failure: Mapping[str, Any], prefix: str = "") -> RewardError:
    """The error again, of the tree's own class even where the author raised a subclass."""
    error = _KINDS[failure["kind"]](f"{prefix}{failure['message']}")
    for name in _NAMES:
        setattr(error, name, failure[name])
    for note in failure["notes"]:
        error.add_note(note)
    return error


def converged(failures: Mapping[int, Mapping[str, Any]], world_size: int) -> RewardError:
    """The one error for what failed on some ranks: the same text and kind wherever it is made.

    Args:
        failures: rank to its failure; at least one.
        world_size: how many ranks there are: where every one failed alike, no rank is to blame and none is named.
    """
    ranks = sorted(failures)
    first = failures[ranks[0]]
    if len(ranks) == world_size and all(failures[rank] == first for rank in ranks):
        return as_error(first)
    if len(ranks) == 1:
        return as_error(first, f"rank {ranks[0]}: ")
    kind = next(kind for kind in _KINDS if any(failure["kind"] == kind for failure in failures.values()))
    lines = [f"  rank {rank}: {as_error(failures[rank])}" for rank in ranks]
    error = _KINDS[kind]("\n".join([f"{len(ranks)} of {world_size} ranks failed:", *lines]))
    for name in _NAMES:
        values = {failure[name] for failure in failures.values()}
        if len(values) == 1:
            setattr(error, name, values.pop())
    return error
