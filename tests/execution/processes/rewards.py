# SPDX-License-Identifier: Apache-2.0
"""Providers that worker processes find by path; the completions say what they are to do."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from posttrain.rewards import (
    MetricContribution,
    RewardCandidate,
    RewardCandidateResult,
    RewardConfigError,
    RewardContext,
    RewardContractError,
    RewardGroupRequest,
    RewardGroupResult,
    RewardProviderResult,
    RewardProviderSpec,
    RewardUnavailableError,
    map_candidates,
    route,
)


class BusyError(RewardUnavailableError):
    """An author's own kind of unavailable."""


def _unavailable() -> None:
    raise RewardUnavailableError("503 from the judge")


def _busy() -> None:
    raise BusyError("busy") from TimeoutError("read timed out")


def _contract() -> None:
    raise ValueError("no such unit \ud800")


def _refused() -> None:
    raise RewardConfigError("401: the key is refused")


def _hang_in_c() -> None:
    re.match("(a+)+$", "a" * 64 + "b")  # backtracks for longer than the machine will last


def _spin() -> None:
    sum(iter(lambda: 0, 1))


def _allocate() -> None:
    taken = []
    while True:
        taken.append(bytearray(b"x" * (8 << 20)))
        time.sleep(0.005)


def _allocate_in_child() -> None:
    if os.fork() == 0:
        _allocate()
    _sleep()


def _hold() -> None:
    _ = bytearray(b"x" * (400 << 20))
    _sleep()


def _close_descriptors() -> None:
    os.closerange(3, 256)
    _sleep()


def _write_garbage() -> None:
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b"garbage\n" * 8)
        except OSError:
            continue
    _sleep()


def _ignore_signals() -> None:
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(each, signal.SIG_IGN)
    _sleep()


def _crash_when_asked() -> None:
    for each in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(each, signal.SIG_DFL)
    _sleep()


def _sleep() -> None:
    threading.Event().wait()


def _print() -> None:
    sys.stdout.write("to standard output\n" * 3)
    sys.stdout.buffer.write(b"\xabPT\x01\x0d\x00\x00\x00\x01x\n")
    sys.stderr.write("to standard error, no newline")
    os.write(1, b"\x00\xff raw")


def _print_secret() -> None:
    sys.stderr.write(f"using {os.environ['JUDGE_API_KEY']}\n")
    os.kill(os.getpid(), signal.SIGKILL)


DEEDS: Mapping[str, Callable[[], object]] = {
    "allocate": _allocate,
    "allocate in child": _allocate_in_child,
    "busy": _busy,
    "close descriptors": _close_descriptors,
    "contract": _contract,
    "crash when asked": _crash_when_asked,
    "exit": lambda: os._exit(3),
    "garbage": _write_garbage,
    "hang in c": _hang_in_c,
    "hold": _hold,
    "ignore signals": _ignore_signals,
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "print": _print,
    "print secret": _print_secret,
    "refused": _refused,
    "segfault": lambda: ctypes.string_at(0),
    "sleep": _sleep,
    "spin": _spin,
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "sys.exit": lambda: sys.exit(4),
    "unavailable": _unavailable,
}


def obey(candidate: RewardCandidate, context: RewardContext) -> RewardProviderResult:
    """A number is the score; a word is done, and paid 0.5 when it lets us come back."""
    order = json.loads(candidate.completion)
    if isinstance(order, str):
        _mark(order, candidate.trajectory_id)
        DEEDS[order]()
        order = 0.5
    return RewardProviderResult({"task": order})


def _mark(deed: str, trajectory_id: str) -> None:
    """Leave word that a deed begins, for a test that waits for it."""
    if (folder := os.environ.get("MARKS")) is not None:
        mark = Path(folder) / f"{deed}-{trajectory_id.replace('/', '-')}"
        mark.with_suffix(".part").write_text(str(os.getpid()))
        mark.with_suffix(".part").rename(mark)


class Rich:
    """A group provider with two terms and every kind of diagnostic, which read off what the candidates say."""

    def evaluate(self, request: RewardGroupRequest) -> RewardGroupResult:
        """Scores that depend on every field of the request."""
        return RewardGroupResult(request.group_id, tuple(self._item(each, request) for each in request.candidates))

    def _item(self, candidate: RewardCandidate, request: RewardGroupRequest) -> RewardCandidateResult:
        size = len(candidate.completion)
        # Depends on the prompt to the bit, and on the order of its keys.
        prompt = sum(repr(request.context.prompt).encode("utf-8", "surrogatepass"))
        terms = {"length": size / 7, "odd": -0.0 if size % 2 else prompt / 3}
        notes = {
            "best": MetricContribution.maximum(size),
            "worst": MetricContribution.minimum(-size),
            "calls": MetricContribution.total(0.1 * size),
            "tokens": MetricContribution.mean(size / 3, 1 + (candidate.completion_token_count or 0)),
        }
        return RewardCandidateResult(candidate.trajectory_id, RewardProviderResult(terms, notes))


class Living:
    """Writes down when it is opened and closed, and by whom."""

    def open(self) -> None:
        """One line."""
        self._note("open")
        if os.environ.get("OPENING") == "hangs":
            _sleep()
        if os.environ.get("OPENING") == "dies":
            os._exit(7)
        if os.environ.get("OPENING") == "is unavailable":
            raise RewardUnavailableError("the judge is down")

    def close(self) -> None:
        """One line."""
        self._note("close")
        if os.environ.get("CLOSING") == "fails":
            raise OSError("the pool can't be closed")
        if os.environ.get("CLOSING") == "hangs":
            _sleep()

    def evaluate(self, request: RewardGroupRequest) -> RewardGroupResult:
        """Its process id for everyone."""
        items = [
            RewardCandidateResult(each.trajectory_id, RewardProviderResult({"pid": os.getpid()}))
            for each in request.candidates
        ]
        return RewardGroupResult(request.group_id, tuple(items))

    def _note(self, what: str) -> None:
        with Path(os.environ["LIFE"]).open("a", encoding="utf-8") as file:
            file.write(f"{what} {os.getpid()}\n")


class Checked(Living):
    """One that looks at the machine first."""

    def check_machine(self) -> None:
        """Refuse a machine without the variable."""
        if "TOKEN_OF_THE_JUDGE" not in os.environ:
            raise RewardConfigError("the variable TOKEN_OF_THE_JUDGE is not set")


def _pid(candidate: RewardCandidate, context: RewardContext) -> RewardProviderResult:
    if candidate.completion == "refuse":
        raise RewardContractError("refused")
    return RewardProviderResult({"pid": os.getpid()})


def _by_prompt(context: RewardContext) -> str:
    return "obey"


def catalog() -> dict[str, RewardProviderSpec]:
    """All of them."""
    obeying = RewardProviderSpec(factory=partial(map_candidates, obey), revision="1", terms=("task",))
    return {
        "obey": obeying,
        "routed": route(_by_prompt, {"obey": obeying}, term="routed"),
        "pid": RewardProviderSpec(factory=partial(map_candidates, _pid), revision="1", terms=("pid",)),
        "rich": RewardProviderSpec(
            factory=Rich,
            revision="1",
            terms=("length", "odd"),
            needs=("prompt",),
            diagnostics=("best", "worst", "calls", "tokens"),
        ),
        "living": RewardProviderSpec(factory=Living, revision="1", terms=("pid",)),
        "checked": RewardProviderSpec(factory=Checked, revision="1", terms=("pid",)),
        "moody": RewardProviderSpec(
            factory=partial(map_candidates, obey),
            revision="1",
            terms=("task",),
            semantic_identity=os.environ.get("MOOD"),
        ),
    }
