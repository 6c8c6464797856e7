# SPDX-License-Identifier: Apache-2.0
"""Providers that tell of themselves: what they need of the machine, what they ask of services. One is named ``it``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from posttrain.rewards import (
    RewardCandidateResult,
    RewardConfigError,
    RewardGroupRequest,
    RewardGroupResult,
    RewardProviderResult,
    RewardProviderSpec,
    RewardUnavailableError,
    route,
)

Catalog = dict[str, RewardProviderSpec]


class Telling:
    """Pays every candidate 1, and tells what it is told to."""

    def __init__(
        self, *, lacks: str = "", cautions: Sequence[str] = (), said: str = "answered 'yes'", fails: str = ""
    ) -> None:
        self._lacks = lacks
        self._cautions = cautions
        self._said = said
        self._fails = fails

    def evaluate(self, request: RewardGroupRequest) -> RewardGroupResult:
        """1 each."""
        ones = [
            RewardCandidateResult(each.trajectory_id, RewardProviderResult({"t": 1.0})) for each in request.candidates
        ]
        return RewardGroupResult(request.group_id, tuple(ones))

    def open(self) -> None:
        """Note it."""
        _note("open")

    def close(self) -> None:
        """Note it."""
        _note("close")

    def check_machine(self) -> None:
        """Note it; fail when told to."""
        _note("machine")
        if self._lacks:
            raise RewardConfigError(self._lacks)

    def probe(self) -> str:
        """Note it; fail when told to."""
        _note("probe")
        if self._fails:
            raise RewardUnavailableError(self._fails)
        return self._said

    def calls_at_once(self) -> Mapping[str, int]:
        """64 at one service."""
        return {"http://judge/v1": 64}

    def cautions(self) -> Sequence[str]:
        """As it is told."""
        return self._cautions


def _note(word: str) -> None:
    with Path("notes").open("a") as file:
        file.write(f"{word}\n")


def _spec(**told: object) -> RewardProviderSpec:
    def make() -> Telling:
        return Telling(**told)  # type: ignore[arg-type]  # its own arguments

    return RewardProviderSpec(factory=make, revision="1", terms=("t",))


def content() -> Catalog:
    """Everything is well."""
    return {"it": _spec()}


def lacking() -> Catalog:
    """The machine lacks something."""
    return {"it": _spec(lacks="this machine lacks:\n  MY_KEY is not set\n  curl is not there")}


def cautious() -> Catalog:
    """There is something to know."""
    return {"it": _spec(cautions=["model 'x' names no snapshot"])}


def silent_service() -> Catalog:
    """The service does not answer."""
    return {"it": _spec(fails="503 from the judge")}


def routed() -> Catalog:
    """Two entries, of which one lacks something."""
    return {"it": route(lambda context: "a", {"a": _spec(cautions=["old"]), "b": _spec(lacks="b lacks\n  curl")})}


def routed_well() -> Catalog:
    """Two entries that lack nothing."""
    return {"it": route(lambda context: "a", {"a": _spec(), "b": _spec(said="said 'no'")})}
