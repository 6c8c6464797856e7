# SPDX-License-Identifier: Apache-2.0
"""Providers that are opened and asked. One of them is always named ``it``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from posttrain.rewards import (
    RewardCandidateResult,
    RewardGroupRequest,
    RewardGroupResult,
    RewardProviderResult,
    RewardProviderSpec,
    RewardUnavailableError,
)

Catalog = dict[str, RewardProviderSpec]


class Quiet:
    """Pays every candidate 1, and does nothing else."""

    def evaluate(self, request: RewardGroupRequest) -> RewardGroupResult:
        """1 each."""
        ones = [
            RewardCandidateResult(each.trajectory_id, RewardProviderResult({"t": 1.0})) for each in request.candidates
        ]
        return RewardGroupResult(request.group_id, tuple(ones))


def _made(factory: Callable[[], Any] = Quiet, **fields: Any) -> Catalog:
    return {"it": RewardProviderSpec(factory=factory, **{"revision": "1", "terms": ("t",), **fields})}


class Managed(Quiet):
    """Writes down when it is opened and closed."""

    def open(self) -> None:
        """Note it."""
        _note("open")

    def close(self) -> None:
        """Note it."""
        _note("close")


def managed() -> Catalog:
    """A provider with a life."""
    return _made(Managed)


class Unopened(Quiet):
    """Its service is down."""

    def open(self) -> None:
        """Fail."""
        raise RewardUnavailableError("503 from the judge")

    def close(self) -> None:
        """Never called."""


def does_not_open() -> Catalog:
    """Opening fails."""
    return _made(Unopened)


class Picky(Quiet):
    """Scores only what is long enough; writes down the size of each group."""

    def evaluate(self, request: RewardGroupRequest) -> RewardGroupResult:
        """The length each, or an error."""
        _note(f"{len(request.candidates)}:{request.candidates[0].finish_reason}")
        if any(len(each.completion) < 2 for each in request.candidates):
            raise ValueError("too short")
        items = [
            RewardCandidateResult(each.trajectory_id, RewardProviderResult({"t": float(len(each.completion))}))
            for each in request.candidates
        ]
        return RewardGroupResult(request.group_id, tuple(items))


def picky() -> Catalog:
    """Scores some completions and refuses others."""
    return _made(Picky, needs=("prompt", "reference"))


def down() -> Catalog:
    """The judge does not answer."""

    class Down(Quiet):
        def evaluate(self, request: RewardGroupRequest) -> RewardGroupResult:
            _note("asked")
            raise RewardUnavailableError("503 from the judge")

    return _made(Down)


def two_of_one_term() -> Catalog:
    """Two providers that can't be selected together."""
    return {**_made(), "that": RewardProviderSpec(factory=Quiet, revision="1", terms=("t",))}


def two() -> Catalog:
    """Two providers that can."""
    return {**_made(), "that": RewardProviderSpec(factory=Quiet, revision="2", terms=("u",), needs=("reference",))}


def _note(text: str) -> None:
    with Path("notes").open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")
