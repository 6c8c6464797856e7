# SPDX-License-Identifier: Apache-2.0
"""Catalogs that would take their process down, or leave something of it behind. The provider is named ``it``."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from posttrain.rewards import (
    RewardCandidateResult,
    RewardGroupRequest,
    RewardGroupResult,
    RewardProviderResult,
    RewardProviderSpec,
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


def _after(deed: Callable[[], Any]) -> Catalog:
    """A provider whose factory does something first."""

    def factory() -> Quiet:
        deed()
        return Quiet()

    return _made(factory)


def leaves() -> Catalog:
    """The provider's factory ends the process without a word."""
    return _after(lambda: os._exit(0))


def dies() -> Catalog:
    """The process kills itself."""
    os.kill(os.getpid(), signal.SIGKILL)
    return _made()


def becomes_another() -> Catalog:
    """The process becomes another program."""
    os.execvp("true", ["true"])  # noqa: S606  # the misdeed itself


def crashes() -> Catalog:
    """The process has a memory fault."""
    ctypes.string_at(0)
    return _made()


def scribbles() -> Catalog:
    """Writes into every descriptor that there is."""
    for descriptor in range(3, 4096):
        with suppress(OSError):
            os.write(descriptor, b"hello?\n")
    return _made()


def closes_everything() -> Catalog:
    """Closes every descriptor, as daemons do."""
    os.closerange(3, 4096)
    return _made()


def helped() -> Catalog:
    """Has the standard library start its helper for shared resources."""
    multiprocessing.get_context("spawn").Lock()
    return _made()


def hangs() -> Catalog:
    """The catalog factory never returns."""
    while True:
        time.sleep(0.01)


def remembers_and_hangs() -> Catalog:
    """Never returns, and tells which process does not."""
    _remember(os.getpid())
    return hangs()


def prints() -> Catalog:
    """Prints on both streams, and straight to the descriptors."""
    sys.stdout.write("chatter by print\n")
    sys.stderr.write("chatter on stderr\n")
    os.write(1, b"chatter by write\n")
    return _made()


def prints_and_dies() -> Catalog:
    """Says something before it is gone."""
    sys.stdout.write("the last words\n")
    os.kill(os.getpid(), signal.SIGKILL)
    return _made()


def fork_that_stays() -> Catalog:
    """The catalog forks, and the child sits on everything that is open."""
    if (pid := os.fork()) == 0:
        time.sleep(60)
        os._exit(0)
    _remember(pid)
    return _made()


def fork_in_c_that_stays() -> Catalog:
    """The same where no hook of the interpreter runs, so that the child holds the pipe of the answer."""
    if (pid := ctypes.CDLL(None).fork()) == 0:
        time.sleep(60)
        os._exit(0)
    _remember(pid)
    return _made()


def fork_that_goes_on() -> Catalog:
    """The catalog forks, and both go on; the child is the quicker one."""
    if pid := os.fork():
        time.sleep(0.3)
    return _made(revision="parent" if pid else "child")


def many_programs_and_a_fork() -> Catalog:
    """Tries more programs than anybody wants to read of, then forks."""
    for number in range(60):
        with suppress(OSError):
            subprocess.run([f"./no-such-program-{number}"], check=False)
    if (pid := os.fork()) == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return _made()


def fork_in_c_then_dies() -> Catalog:
    """A child holds the pipe of the answer, and the process itself is gone."""
    if (pid := ctypes.CDLL(None).fork()) == 0:
        time.sleep(60)
        os._exit(0)
    _remember(pid)
    os.kill(os.getpid(), signal.SIGKILL)
    return _made()


def process_that_stays() -> Catalog:
    """The provider's factory starts a program and leaves it running."""
    return _after(lambda: _remember(subprocess.Popen(["sleep", "60"]).pid))


def _remember(pid: int) -> None:
    Path(f"left.{pid}").touch()
