# SPDX-License-Identifier: Apache-2.0
"""Providers that actors make: each group's reference says what happens to it. Loaded by path, also from actors."""

from __future__ import annotations

import ctypes
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from functools import partial
from pathlib import Path
from typing import Any

from posttrain.errors import RewardConfigError, RewardContractError, RewardUnavailableError
from posttrain.rewards import (
    MetricContribution,
    ProviderExecution,
    RewardCandidate,
    RewardCandidateResult,
    RewardContext,
    RewardGroupRequest,
    RewardGroupResult,
    RewardProviderResult,
    RewardProviderSpec,
    map_candidates,
)


def score(text: str) -> float:
    """A value that depends on every character: a number of the kind that rounding would show."""
    return math.fsum((ord(each) % 97) / (place + 3) for place, each in enumerate(text)) - len(text) / 7


class Scripted:
    """Scores each candidate by its text, after it has done what the group's reference says."""

    def evaluate(self, request: RewardGroupRequest) -> RewardGroupResult:
        """Note the call in the reference's folder, act, score."""
        script = request.context.reference
        if isinstance(script, Mapping):
            act(request.group_id, script)
        items = tuple(
            RewardCandidateResult(
                candidate.trajectory_id,
                RewardProviderResult(
                    {"text": score(candidate.completion), "length": float(len(candidate.completion))},
                    diagnostics(candidate),
                ),
            )
            for candidate in request.candidates
        )
        return RewardGroupResult(request.group_id, items)


def diagnostics(candidate: RewardCandidate) -> dict[str, MetricContribution]:
    """One of each kind; one is absent now and then."""
    value = score(candidate.completion) / 3
    found = {
        "mean": MetricContribution.mean(value, weight=1 + len(candidate.completion)),
        "total": MetricContribution.total(value),
        "least": MetricContribution.minimum(value),
    }
    return found if candidate.is_length_truncated else {**found, "most": MetricContribution.maximum(-value)}


def act(group_id: str, script: Mapping[str, Any]) -> None:
    """Do what the script says: `do` the first time, `then` when the group comes again, to whomever."""
    folder = Path(script["folder"]) if "folder" in script else None
    calls = 0
    if folder is not None:
        calls = len(list(folder.glob(f"{group_id}.*")))
        (folder / f"{group_id}.{calls}.{os.getpid()}").touch()
    again = "then" if calls else "do"
    ACTS[script.get(again, "nothing")](script)


def _kill(_: Mapping[str, Any]) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _suspend(_: Mapping[str, Any]) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _hold(_: Mapping[str, Any]) -> None:
    # Native code that keeps the interpreter's lock: no other thread of the process runs meanwhile.
    ctypes.PyDLL(None).sleep(600)


def _raise(script: Mapping[str, Any]) -> None:
    kinds: dict[str, Callable[[str], BaseException]] = {
        "contract": RewardContractError,
        "unavailable": RewardUnavailableError,
        "config": RewardConfigError,
        "plain": ValueError,
        "exit": SystemExit,
        "cancelled": CancelledError,
    }
    raise kinds[script["kind"]](script.get("text", "said so")) from (
        KeyError("the cause") if "cause" in script else None
    )


def _wait_for(script: Mapping[str, Any]) -> None:
    while not Path(script["file"]).exists():
        time.sleep(0.01)


ACTS: dict[str, Callable[[Mapping[str, Any]], None]] = {
    "nothing": lambda _: None,
    "sleep": lambda script: time.sleep(script["seconds"]),
    "kill": _kill,
    "suspend": _suspend,
    "hold": _hold,
    "raise": _raise,
    "wait": _wait_for,
}


class Managed(Scripted):
    """Leaves a note in a folder that an environment variable names, for each life and its end."""

    def open(self) -> None:
        """Note it."""
        self._note("opened")

    def close(self) -> None:
        """Note it, or fail when told to."""
        self._note("closed")
        if os.environ.get("REWARDS_CLOSE_FAILS"):
            raise OSError("the file can't be closed")

    def check_machine(self) -> None:
        """Note it, or refuse the machine when told to."""
        self._note("checked")
        if missing := os.environ.get("REWARDS_MACHINE_LACKS"):
            raise RewardConfigError(f"the program {missing} is not installed")

    def _note(self, what: str) -> None:
        if folder := os.environ.get("REWARDS_FOLDER"):
            with (Path(folder) / str(os.getpid())).open("a", encoding="utf-8") as notes:
                notes.write(f"{what} {threading.get_ident()}\n")


class Parallel:
    """Knows how many groups are in its hands at once, and says so as a diagnostic."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = 0

    def evaluate(self, request: RewardGroupRequest) -> RewardGroupResult:
        """Wait a little, so that the others come in too."""
        with self._lock:
            self._now += 1
            at_once = self._now
        time.sleep(0.01)
        with self._lock:
            self._now -= 1
        most = MetricContribution.maximum(at_once)
        return RewardGroupResult(
            request.group_id,
            tuple(
                RewardCandidateResult(
                    each.trajectory_id, RewardProviderResult({"vowels": vowels(each)}, {"most": most})
                )
                for each in request.candidates
            ),
        )


def vowels(candidate: RewardCandidate) -> float:
    """How many there are."""
    return float(sum(letter in "aeiou" for letter in candidate.completion))


def tenth(candidate: RewardCandidate, context: RewardContext) -> RewardProviderResult:
    """A pointwise scorer; fails for a text that says so."""
    if "refuse" in candidate.completion:
        raise ValueError(f"no tenth of {candidate.trajectory_id}")
    return RewardProviderResult({"tenth": len(candidate.completion) / 10})


def catalog() -> dict[str, RewardProviderSpec]:
    """All of them; the environment decides a revision, as a wrongly installed package would."""
    revision = os.environ.get("REWARDS_REVISION", "1")
    if "broken" in revision:
        sys.exit("the catalog's data is not on this machine")
    scripted: dict[str, Any] = {
        "terms": ("text", "length"),
        "needs": ("reference",),
        "diagnostics": ("mean", "total", "least", "most"),
        "revision": revision,
    }
    again = ProviderExecution(repeatable=True)
    return {
        "scripted": RewardProviderSpec(factory=Scripted, **scripted, execution=again),
        "once": RewardProviderSpec(factory=Scripted, **scripted),
        "managed": RewardProviderSpec(factory=Managed, **scripted, execution=again),
        "judge": RewardProviderSpec(
            factory=Managed,
            **scripted,
            semantic_identity={"model": "m", "endpoint": {"credential": "REWARDS_TEST_KEY"}},
        ),
        "parallel": RewardProviderSpec(
            factory=Parallel,
            revision="1",
            terms=("vowels",),
            diagnostics=("most",),
            execution=ProviderExecution(groups_in_flight=4, repeatable=True),
        ),
        "tenth": RewardProviderSpec(
            factory=partial(map_candidates, tenth), revision="1", terms=("tenth",), execution=again
        ),
        "local": RewardProviderSpec(
            factory=Parallel, revision="1", terms=("vowels",), execution=ProviderExecution(rank_local=True)
        ),
    }
